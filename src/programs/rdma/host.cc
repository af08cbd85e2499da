#include "programs/rdma/host.h"

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

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
  auto opened = verbs_driver::VerbsDevice::open(made->registry_, {.name = device});
  if (!opened) {
    return std::unexpected(opened.error());
  }
  made->device_ = *std::move(opened);
  if (!made->device_->uses_on_demand_paging()) {
    return fail(ErrorCode::NotSupported,
                "{} cannot reach all memory under one key (implicit on-demand paging), which disks "
                "in memory and files of any size want",
                made->device().name());
  }
  auto started = verbs_driver::LiveRdmaCm::start(made->environment_, {made->device_.get()});
  if (!started) {
    return std::unexpected(started.error());
  }
  made->cm_ = *std::move(started);
  return made;
}

}  // namespace weft::programs::rdma
