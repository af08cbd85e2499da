#include "kernel/host.h"

#include <atomic>
#include <bit>
#include <mutex>

#include "core/device.h"
#include "kernel/device_face.h"
#include "os/error_numbers.h"

namespace weft::kernel {
namespace {

struct State {
  std::recursive_mutex mutex;  // a starter installs
  Host host;
  HostStarter starter{};
};

State& state() {
  static State made;
  return made;
}

}  // namespace

void install_host(const Host& host) {
  const std::lock_guard lock{state().mutex};
  state().host = host;
  attach_faces(*host.registry);
}

void remove_host() {
  const std::lock_guard lock{state().mutex};
  if (state().host.registry != nullptr) {
    detach_faces(*state().host.registry);
  }
  state().host = {};
}

void set_cm(core::RdmaCm& cm) {
  const std::lock_guard lock{state().mutex};
  state().host.cm = &cm;
}

void set_host_starter(HostStarter starter) {
  const std::lock_guard lock{state().mutex};
  state().starter = starter;
}

Result<Host> host() {
  const std::lock_guard lock{state().mutex};
  if (state().host.registry == nullptr && state().starter != nullptr) {
    if (const auto started = state().starter(); !started) {
      return std::unexpected(started.error());
    }
  }
  if (state().host.registry == nullptr) {
    return fail(ErrorCode::NoSuchDevice, "no host of RDMA devices is there");
  }
  return state().host;
}

int refuse(const Error& error) {
  core::Environment* environment = nullptr;
  {
    const std::lock_guard lock{state().mutex};
    if (state().host.registry != nullptr) {
      environment = &state().host.registry->environment();
    }
  }
  if (environment != nullptr) {
    environment->log(core::LogLevel::Info, error.reason);
  }
  return -os::error_number_of(error.code);
}

void* error_pointer(int error) { return std::bit_cast<void*>(static_cast<std::intptr_t>(error)); }

}  // namespace weft::kernel
