#pragma once

#include <asio/io_context.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "core/registry.h"
#include "programs/loop/loop_environment.h"
#include "verbs_driver/rdma_cm.h"
#include "verbs_driver/verbs_device.h"

namespace weft::programs::rdma {

/// How long a CQ of such a program is polled on after a completion (core::CqInit::lingers): its
/// loop serves nothing whose answer would be slower for that. Policy: longer than the other end
/// takes to answer with 1 MiB that it copies, or after a nap of its progress thread.
inline constexpr Duration kCqLingers = Duration::microseconds(200);

/// What a program of the kernel's side has: an environment on its Asio loop, devices of the
/// libibverbs that it finds at run time, and RDMA-CM of its librdmacm. The loop's thread.
class Host {
 public:
  /// `device` as libibverbs names it; empty: the first. NotFound: no libraries; NoSuchDevice.
  /// NotSupported: a device that cannot reach all memory under one key, in a program whose
  /// allocator unmaps memory. What is logged goes to standard error, after `program`.
  [[nodiscard]] static Result<std::unique_ptr<Host>> open(asio::io_context& loop,
                                                          const std::string& device,
                                                          const std::string& program);

  [[nodiscard]] LoopEnvironment& environment() { return environment_; }
  [[nodiscard]] core::Registry& registry() { return registry_; }
  /// That by which it was opened, until that is removed.
  [[nodiscard]] core::Device& device() { return devices_.front()->device(); }
  /// Another one, refused as by open().
  [[nodiscard]] Result<core::Device*> add_device(const std::string& name);
  /// Nothing of it is used any more.
  void remove_device(const core::Device& device);
  [[nodiscard]] core::RdmaCm& cm() { return *cm_; }

 private:
  Host(asio::io_context& loop, const std::string& program);
  Result<void> open_device(const std::string& name);

  asio::io_context& loop_;
  LoopEnvironment environment_;
  core::Registry registry_{environment_};
  std::vector<std::unique_ptr<verbs_driver::VerbsDevice>> devices_;
  std::unique_ptr<verbs_driver::LiveRdmaCm> cm_;
};

}  // namespace weft::programs::rdma
