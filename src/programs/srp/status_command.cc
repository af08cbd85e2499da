#include "programs/srp/status_command.h"

#include <fmt/format.h>

#include <cstdio>
#include <string_view>

#include "base/time.h"
#include "programs/control/control.h"
#include "programs/iscsi/target_command.h"
#include "programs/srp/status_report.h"
#include "programs/srp/status_socket.h"

namespace weft::programs::srp {
namespace {

constexpr Duration kWithin = Duration::seconds(5);  // policy: for each process

void print_error(std::string_view reason) { fmt::print(stderr, "weft-srp: {}\n", reason); }

}  // namespace

CLI::App& add_status_command(CLI::App& app, StatusOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "status", "What the targets and the attached units of a host do: sessions, disks, counters");
  command.add_option("--host", options.host, "On this host; otherwise the one that it runs on");
  command.add_option("--name", options.fabric, "Name of the fabric");
  command.add_flag("--json", options.is_json, "As JSON");
  return command;
}

int run_status(const StatusOptions& options) {
  std::string all;
  bool has_failed = false;
  for (const std::string& service : services_named(kStatusPrefix)) {
    const auto said = ask(service, "json", kWithin);
    if (!said && said.error().code == ErrorCode::NotFound) {
      continue;  // it has ended meanwhile
    }
    const auto text = said ? status_text(*said) : std::unexpected(said.error());
    if (!text) {
      print_error(fmt::format("{}: {}", service, text.error().reason));
      has_failed = true;
    } else if (options.is_json) {
      all += fmt::format("{}{}", all.empty() ? "" : ",\n ",
                         std::string_view{*said}.substr(0, said->find('\n')));
    } else {
      all += *text;
    }
  }
  if (all.empty() && !has_failed) {
    print_error(
        "no 'weft srp target' or 'weft srp attach' runs on this host (weft exec HOST -- weft srp "
        "status, with --ns if they were started so)");
    has_failed = true;
  }
  if (!all.empty()) {
    fmt::print("{}", options.is_json ? fmt::format("[{}]\n", all) : all);
  }
  return has_failed ? iscsi::kFailed : 0;
}

}  // namespace weft::programs::srp
