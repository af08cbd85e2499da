#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/registry.h"
#include "kernel/host.h"
#include "verbs_driver/library.h"
#include "verbs_driver/rdma_cm.h"
#include "verbs_driver/threaded_environment.h"
#include "verbs_driver/verbs_device.h"

namespace weft::kernel_lib {
namespace {

void log(core::LogLevel level, std::string_view text) {
  static const bool explains = std::getenv("WEFT_EXPLAIN") != nullptr;
  if (explains || level >= core::LogLevel::Warning) {
    fmt::print(stderr, "weft-rdma: {}\n", text);
  }
}

/// The host of this process, which lasts as long as it does: a kernel does not end before its
/// modules.
class LiveHost {
 public:
  [[nodiscard]] static Result<void> start() {
    const auto names = verbs_driver::device_names();
    if (!names) {
      return std::unexpected(names.error());
    }
    static LiveHost& made = *new LiveHost;  // NOLINT(cppcoreguidelines-owning-memory)
    kernel::install_host({.registry = &made.registry_});
    std::vector<verbs_driver::VerbsDevice*> devices;
    for (const std::string& name : *names) {
      auto opened = verbs_driver::VerbsDevice::open(made.registry_,
                                                    {.name = name, .unregisters_when_gone = true});
      if (!opened) {
        log(core::LogLevel::Warning, fmt::format("{}: {}", name, opened.error().reason));
        continue;
      }
      devices.push_back(opened->get());
      made.devices_.push_back(*std::move(opened));
    }
    auto cm = verbs_driver::LiveRdmaCm::start(made.environment_, devices);
    if (!cm) {
      log(core::LogLevel::Warning, cm.error().reason);
      return {};  // devices can be used without it
    }
    made.cm_ = *std::move(cm);
    kernel::set_cm(*made.cm_);
    return {};
  }

 private:
  LiveHost() = default;

  verbs_driver::ThreadedEnvironment environment_{log};
  core::Registry registry_{environment_};
  std::vector<std::unique_ptr<verbs_driver::VerbsDevice>> devices_;
  std::unique_ptr<verbs_driver::LiveRdmaCm> cm_;
};

/// Before main(), so that the first call finds it.
[[maybe_unused]] const bool is_known = [] {
  kernel::set_host_starter(LiveHost::start);
  return true;
}();

}  // namespace
}  // namespace weft::kernel_lib
