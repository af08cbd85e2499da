#include "programs/srp/load_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>

#include "programs/disk/disk.h"
#include "programs/iscsi/target_command.h"
#include "programs/srp/session_path.h"

namespace weft::programs::srp {
namespace {

/// Logs in, finds the disk's size, and logs out.
[[nodiscard]] Result<scsi::DiskProperties> size_of(const TargetUrl& url,
                                                   const LoadOptions& options) {
  SessionPath path{std::vector{url}, PathOptions{.device = options.device},
                   [](const std::string&) {}};
  if (auto opened = path.open(); !opened) {
    return std::unexpected(opened.error());
  }
  disk::Disk disk{path};
  if (auto opened = disk.open(); !opened) {
    return std::unexpected(opened.error());
  }
  return disk.properties();
}

int fail_load(const Error& error) {
  fmt::print(stderr, "weft-srp: {}\n", error.reason);
  return iscsi::kFailed;
}

}  // namespace

CLI::App& add_load_command(CLI::App& app, LoadCommand& command) {
  LoadOptions& options = command.options;
  CLI::App& added = *app.add_subcommand(
      "load", "Reads a unit, or writes it, by one session or many, and says how fast");
  added.add_option("unit", command.where, "srp://HOST[:PORT]/TARGET/LUN, or a line of ibsrpdm -c")
      ->required();
  added.add_option("--device", options.device, "The RDMA device; default: the first");
  added.add_option("--sessions", options.sessions, "Each an initiator of its own")
      ->default_val(options.sessions)
      ->check(CLI::Range(1, 1024));
  added.add_option("--depth", options.depth, "Commands under way, of each session")
      ->default_val(options.depth)
      ->check(CLI::Range(1, 1024));
  added.add_option("--bytes", options.bytes, "Of each command")
      ->default_val(options.bytes)
      ->check(CLI::Range(512, 16 << 20));
  added.add_option("--seconds", options.seconds, "How long")
      ->default_val(options.seconds)
      ->check(CLI::Range(1, 3600));
  added.add_flag("--write", options.writes, "Writes what is in memory over the unit's content");
  added.add_flag("--sequential", options.is_sequential, "One place after the other");
  added
      .add_option("--fast-fail", options.fast_fail_seconds,
                  "Seconds until a session is given up, after its connection was lost")
      ->default_val(options.fast_fail_seconds)
      ->check(CLI::Range(1, 600));
  added.add_flag("--json", command.is_json, "As JSON");
  return added;
}

int run_load(const LoadCommand& command) {
  auto url = find_target(command.where);
  if (!url) {
    fmt::print(stderr, "weft-srp: {}\n", url.error().reason);
    return iscsi::kWrongUsage;
  }
  const auto size = size_of(*url, command.options);
  if (!size) {
    return fail_load(size.error());
  }
  LoadRun run{*std::move(url), size->bytes() / size->block_bytes, size->block_bytes,
              command.options};
  const auto result = run.run();
  if (!result) {
    return fail_load(result.error());
  }
  fmt::print("{}\n", command.is_json ? to_json(*result, command.options.bytes)
                                     : to_text(*result, command.options.bytes));
  if (result->failed != 0 || result->refused != 0 || result->lost != 0) {
    fmt::print(stderr, "weft-srp: {}\n",
               result->reason.empty() ? "commands have failed" : result->reason);
    return iscsi::kFailed;
  }
  return 0;
}

}  // namespace weft::programs::srp
