#include "programs/srp/attach_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <utility>

#include "programs/disk/disk.h"
#include "programs/iscsi/attach_command.h"
#include "programs/iscsi/target_command.h"
#include "programs/srp/target_url.h"

namespace weft::programs::srp {
namespace {

constexpr const char* kProgram = "weft-srp";

/// Logs in, finds a disk, and logs out.
[[nodiscard]] Result<void> look_at(const std::vector<TargetUrl>& urls, const PathOptions& options) {
  SessionPath path{urls, options, [](const std::string&) {}};
  if (auto opened = path.open(); !opened) {
    return opened;
  }
  return disk::Disk{path}.open();
}

}  // namespace

CLI::App& add_attach_command(CLI::App& app, AttachOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "attach", "Offers a logical unit of a target as NBD on a socket, until it is told to end");
  command
      .add_option("unit", options.where,
                  "srp://HOST[:PORT]/TARGET/LUN, or a line of ibsrpdm -c; several: paths to the "
                  "same unit, of which the first is taken while it is there")
      ->required();
  command.add_option("--nbd", options.socket, "The socket's path, which must not be there yet")
      ->required();
  command.add_flag("--read-only", options.read_only, "Nothing is written");
  command.add_option("--initiator", options.path.initiator,
                     "Port identifier of this end, hexadecimal; default: a new one each time");
  command.add_option("--device", options.path.device, "The RDMA device; default: the first");
  command
      .add_option("--fast-fail", options.path.fast_fail_seconds,
                  "Seconds until requests fail, after a connection was lost")
      ->default_val(30)
      ->check(CLI::Range(1, 600));
  command
      .add_option("--dev-loss", options.path.dev_loss_seconds,
                  "Seconds until the target is given up, after a connection was lost")
      ->default_val(600)
      ->check(CLI::Range(1, 86400));
  command
      .add_option("--timeout", options.path.timeout_seconds,
                  "Seconds until a command that is not answered is aborted")
      ->default_val(30)
      ->check(CLI::Range(1, 600));
  command.add_flag("--keep-channels", options.path.keeps_channels,
                   "The login ends no other one of the same --initiator to the target: they are "
                   "channels of one session");
  command.add_flag("--no-immediate-data", options.path.no_immediate_data,
                   "Small writes are read by the target, too, as SRP before SRP-2 has it");
  return command;
}

int run_attach(const AttachOptions& options) {
  std::vector<TargetUrl> urls;
  for (const std::string& text : options.where) {
    auto url = find_target(text);
    if (!url) {
      fmt::print(stderr, "{}: {}\n", kProgram, url.error().reason);
      return iscsi::kWrongUsage;
    }
    urls.push_back(*std::move(url));
  }
  iscsi::NbdkitCall call{
      .program = kProgram, .socket = options.socket, .read_only = options.read_only};
  if (const auto status = iscsi::check_nbdkit(call)) {
    return *status;
  }
  // nbdkit makes its socket before it looks at the disk, and leaves it behind if it then fails.
  if (const auto looked = look_at(urls, options.path); !looked) {
    fmt::print(stderr, "{}: {}: {}\n", kProgram, fmt::join(options.where, ", "),
               looked.error().reason);
    return iscsi::kFailed;
  }
  for (const std::string& text : options.where) {
    call.parameters.push_back("url=" + text);
  }
  for (const std::string& text : {fmt::format("fast-fail={}", options.path.fast_fail_seconds),
                                  fmt::format("dev-loss={}", options.path.dev_loss_seconds),
                                  fmt::format("timeout={}", options.path.timeout_seconds)}) {
    call.parameters.push_back(text);
  }
  if (!options.path.initiator.empty()) {
    call.parameters.push_back("initiator=" + options.path.initiator);
  }
  if (!options.path.device.empty()) {
    call.parameters.push_back("device=" + options.path.device);
  }
  if (options.path.keeps_channels) {
    call.parameters.emplace_back("keep-channels=yes");
  }
  if (options.path.no_immediate_data) {
    call.parameters.emplace_back("immediate-data=no");
  }
  return iscsi::become_nbdkit(call);
}

}  // namespace weft::programs::srp
