#include "programs/rdma/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <asio/posix/stream_descriptor.hpp>
#include <cstdio>
#include <functional>
#include <string_view>
#include <system_error>
#include <utility>

#include "os/heap.h"

namespace weft::programs::rdma {
namespace {

/// A descriptor that belongs to somebody else, in the loop.
class LoopWatch {
 public:
  LoopWatch(asio::io_context& loop, int descriptor, std::function<void()> readable)
      : descriptor_(loop, descriptor), readable_(std::move(readable)) {
    wait();
  }
  ~LoopWatch() { descriptor_.release(); }
  LoopWatch(const LoopWatch&) = delete;
  LoopWatch& operator=(const LoopWatch&) = delete;

 private:
  void wait() {
    descriptor_.async_wait(asio::posix::descriptor_base::wait_read,
                           [this, alive = std::weak_ptr{alive_}](const std::error_code& error) {
                             if (!error && !alive.expired()) {
                               readable_();
                               wait();
                             }
                           });
  }

  asio::posix::stream_descriptor descriptor_;
  const std::function<void()> readable_;
  const std::shared_ptr<char> alive_ = std::make_shared<char>();  // for what the loop runs late
};

}  // namespace

Host::Host(asio::io_context& loop, const std::string& program)
    : loop_(loop), environment_(loop, [program](core::LogLevel level, std::string_view text) {
        if (level != core::LogLevel::Debug) {
          fmt::print(stderr, "{}: {}\n", program, text);
        }
      }) {}

Result<std::unique_ptr<Host>> Host::open(asio::io_context& loop, const std::string& device,
                                         const std::string& program) {
  std::unique_ptr<Host> made{
      new Host{loop, program}
  };
  if (auto opened = made->open_device(device); !opened) {
    return std::unexpected(opened.error());
  }
  auto started = verbs_driver::LiveRdmaCm::start(made->environment_, {made->devices_.back().get()});
  if (!started) {
    return std::unexpected(started.error());
  }
  made->cm_ = *std::move(started);
  return made;
}

Result<void> Host::open_device(const std::string& name) {
  // What requests use is registered then, for good (verbs_driver::Registrations).
  const auto kept = os::keep_freed_memory_mapped();
  const auto watch = [&loop = loop_](int descriptor, std::function<void()> readable) {
    return std::make_shared<LoopWatch>(loop, descriptor, std::move(readable));
  };
  auto opened = verbs_driver::VerbsDevice::open(
      registry_, {.name = name, .registers_heap = kept.has_value(), .watch_completions = watch});
  if (!opened) {
    return std::unexpected(opened.error());
  }
  if (!kept && !(*opened)->uses_on_demand_paging()) {
    return fail(ErrorCode::NotSupported,
                "{} cannot reach all memory under one key (implicit on-demand paging), and {}",
                (*opened)->device().name(), kept.error().reason);
  }
  devices_.push_back(*std::move(opened));
  return {};
}

Result<core::Device*> Host::add_device(const std::string& name) {
  if (auto opened = open_device(name); !opened) {
    return std::unexpected(opened.error());
  }
  cm_->add_device(*devices_.back());
  return &devices_.back()->device();
}

void Host::remove_device(const core::Device& device) {
  const auto found =
      std::ranges::find_if(devices_, [&](const auto& one) { return &one->device() == &device; });
  cm_->remove_device(**found);
  devices_.erase(found);
}

}  // namespace weft::programs::rdma
