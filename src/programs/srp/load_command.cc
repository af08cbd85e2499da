#include "programs/srp/load_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "programs/disk/disk.h"
#include "programs/iscsi/target_command.h"
#include "programs/srp/load_run.h"
#include "programs/srp/session_path.h"

namespace weft::programs::srp {
namespace {

/// Logs in, asks the disk what it is, and logs out.
[[nodiscard]] Result<scsi::DiskProperties> find_unit(const TargetUrl& url,
                                                     const std::string& device) {
  SessionPath path{std::vector{url}, PathOptions{.device = device}, [](const std::string&) {}};
  if (auto opened = path.open(); !opened) {
    return std::unexpected(opened.error());
  }
  return disk::properties_of(path);
}

int fail_load(const Error& error) {
  fmt::print(stderr, "weft-srp: {}\n", error.reason);
  return iscsi::kFailed;
}

}  // namespace

CLI::App& add_load_command(CLI::App& app, LoadCommand& command) {
  CLI::App& added = *app.add_subcommand(
      "load", "Reads a unit, or writes it, by one session or many, and says how fast");
  added.add_option("unit", command.where, "srp://HOST[:PORT]/TARGET/LUN, or a line of ibsrpdm -c")
      ->required();
  added.add_option("--device", command.device, "The RDMA device; default: the first");
  load::add_load_options(added, command.options);
  return added;
}

int run_load(const LoadCommand& command) {
  auto url = find_target(command.where);
  if (!url) {
    fmt::print(stderr, "weft-srp: {}\n", url.error().reason);
    return iscsi::kWrongUsage;
  }
  const auto unit = find_unit(*url, command.device);
  if (!unit) {
    return fail_load(unit.error());
  }
  auto meter = load::LoadMeter::create(*unit, command.options);
  if (!meter) {
    return fail_load(meter.error());
  }
  LoadRun run{*std::move(url), command.device, command.options, *std::move(meter)};
  const auto result = run.run();
  if (!result) {
    return fail_load(result.error());
  }
  load::print(*result, command.options, "weft-srp");
  return result->is_whole() ? 0 : iscsi::kFailed;
}

}  // namespace weft::programs::srp
