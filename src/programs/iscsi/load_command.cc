#include "programs/iscsi/load_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <utility>
#include <vector>

#include "programs/disk/disk.h"
#include "programs/iscsi/initiator_path.h"
#include "programs/iscsi/load_run.h"
#include "programs/iscsi/target_command.h"
#include "programs/iscsi/target_url.h"

namespace weft::programs::iscsi {
namespace {

int fail_load(const LoadCommand& command, int status, const std::string& reason) {
  fmt::print(stderr, "{}: {}\n", command.unit.program, reason);
  return status;
}

/// Logs in, asks the disk what it is, and logs out.
[[nodiscard]] Result<scsi::DiskProperties> find_unit(const weft::iscsi::InitiatorOptions& options,
                                                     scsi::Lun lun, const LinkKind& links) {
  InitiatorPath path{options, lun, [](const std::string&) {}, links};
  if (auto opened = path.open(); !opened) {
    return std::unexpected(opened.error());
  }
  return disk::properties_of(path);
}

}  // namespace

CLI::App& add_load_command(CLI::App& app, LoadCommand& command) {
  CLI::App& added = *app.add_subcommand(
      "load", "Reads a unit, or writes it, by one session or many, and says how fast");
  added.add_option("unit", command.unit.where, command.unit.scheme + "://HOST[:PORT]/IQN/LUN")
      ->required();
  load::add_load_options(added, command.load);
  add_session_options(added, command.unit.session);
  added.add_flag("--digests", command.unit.session.digests, "CRC32C over headers and data");
  return added;
}

int run_load(const LoadCommand& command) {
  const auto url = parse_target_url(command.unit.where);
  if (!url) {
    return fail_load(command, kWrongUsage, url.error().reason);
  }
  if (url->scheme != command.unit.scheme) {
    return fail_load(command, kWrongUsage,
                     fmt::format("{}:// is for 'weft {} load'", url->scheme, url->scheme));
  }
  SessionOptions session = command.unit.session;
  session.fast_fail_seconds = command.load.fast_fail_seconds;
  std::vector<weft::iscsi::InitiatorOptions> sessions;
  for (unsigned i = 0; i < command.load.sessions; ++i) {
    auto options = initiator_options(session, url->address, url->target);
    if (!options) {
      return fail_load(command, kWrongUsage, options.error().reason);
    }
    sessions.push_back(*std::move(options));
  }
  const scsi::Lun lun{url->lun};
  const auto unit = find_unit(sessions.front(), lun, command.unit.links);
  if (!unit) {
    return fail_load(command, kFailed, unit.error().reason);
  }
  auto meter = load::LoadMeter::create(*unit, command.load);
  if (!meter) {
    return fail_load(command, kFailed, meter.error().reason);
  }
  LoadRun run{sessions, lun, command.load, *std::move(meter), command.unit.links};
  const load::LoadResult result = run.run();
  load::print(result, command.load, command.unit.program.c_str());
  return result.is_whole() ? 0 : kFailed;
}

}  // namespace weft::programs::iscsi
