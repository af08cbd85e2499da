#include "programs/rdma/host.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "os/heap.h"

namespace weft::programs::rdma {

Host::Host(asio::io_context& loop, const std::string& program)
    : environment_(loop, [program](core::LogLevel level, std::string_view text) {
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
  auto opened = verbs_driver::VerbsDevice::open(registry_,
                                                {.name = name, .registers_heap = kept.has_value()});
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
