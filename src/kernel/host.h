#pragma once

// What is global in a kernel, and behind the names of include/rdma here: the devices and clients of
// one host, and its RDMA-CM. A program has one host, as a process has one kernel.

#include <cstdint>

#include "base/result.h"
#include "core/cm/rdma_cm.h"
#include "core/registry.h"
#include "core/sa/sa_service.h"

namespace weft::kernel {

class IbCmService;

struct Host {
  core::Registry* registry{};
  core::RdmaCm* cm{};     ///< null: there is none
  core::SaService* sa{};  ///< null: its devices send no MADs
  IbCmService* ib_cm{};   ///< the same
};

/// From now on the names are about this host; its registry has no clients yet. It stays until
/// remove_host(): all clients have left before that, and all objects are gone.
void install_host(const Host& host);
void remove_host();
/// Its RDMA-CM, where it comes later than the host.
void set_cm(core::RdmaCm& cm);

/// What makes a host where a call needs one and none is installed: it calls install_host(). For
/// libraries that find their devices when they are used first.
using HostStarter = Result<void> (*)();
void set_host_starter(HostStarter starter);

/// The host, which is started where it has to be. NoSuchDevice: there is none.
[[nodiscard]] Result<Host> host();

/// The negative error number by which a caller in C is told of a failure; its reason goes to the
/// log of the host.
[[nodiscard]] int refuse(const Error& error);

/// A pointer that says an error (`ERR_PTR`).
[[nodiscard]] void* error_pointer(int error);
template <class T>
[[nodiscard]] T* refuse_pointer(const Error& error) {
  return static_cast<T*>(error_pointer(refuse(error)));
}

/// What a call without a value returns.
[[nodiscard]] inline int returned(const Result<void>& result) {
  return result ? 0 : refuse(result.error());
}

}  // namespace weft::kernel
