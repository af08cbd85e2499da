// weft run: programs on a fabric that exists as long as they run.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/daemon_process.h"
#include "cli/environment.h"
#include "cli/fabric_client.h"
#include "cli/program_group.h"
#include "cli/terminal.h"
#include "fabric/topology.h"

namespace weft::cli {
namespace {

struct RunOptions {
  std::vector<std::string> fabric;
  std::vector<std::pair<std::string, std::string>> on;  // host, shell command
  std::vector<std::string> command;
  double delay_seconds{-1};
  std::shared_ptr<LinkOptions> links = std::make_shared<LinkOptions>();
};

/// True for programs that are servers without an argument, and clients when given the server's
/// address.
[[nodiscard]] bool is_two_sided(const std::string& program) {
  static constexpr std::array<std::string_view, 12> kPrograms{
      "ib_send_bw",      "ib_send_lat",     "ib_write_bw",     "ib_write_lat",
      "ib_read_bw",      "ib_read_lat",     "ib_atomic_bw",    "ib_atomic_lat",
      "ibv_rc_pingpong", "ibv_uc_pingpong", "ibv_ud_pingpong", "ibv_srq_pingpong"};
  const std::string name = std::filesystem::path{program}.filename().string();
  return std::ranges::find(kPrograms, name) != kPrograms.end();
}

/// True if an argument looks like a server's address or name.
[[nodiscard]] bool names_a_server(const std::string& word) {
  return word.starts_with("127.") || word == "localhost";
}

[[nodiscard]] std::vector<Program> programs_of(const RunOptions& options) {
  std::vector<Program> programs;
  for (const auto& [host, command] : options.on) {
    programs.push_back({
        .host = host, .command = {"/bin/sh", "-c", command}
    });
  }
  if (!options.command.empty()) {
    programs.push_back({.host = "h1", .command = options.command});
    const bool has_server = std::ranges::any_of(options.command, names_a_server);
    if (is_two_sided(options.command.front()) && !has_server) {
      programs.push_back({.host = "h2", .command = options.command});
      programs.back().command.emplace_back("127.77.0.1");
    }
  }
  return programs;
}

int run(const RunOptions& options) {
  const auto topology = topology_from(options.fabric, *options.links);
  if (!topology) {
    return print_error(topology.error());
  }
  std::vector<Program> programs = programs_of(options);
  if (programs.empty()) {
    fmt::print(stderr,
               "weft: nothing to run: `weft run -- ib_write_bw`, or --on h1 'CMD' --on h2 'CMD'\n");
    return kWrongUsage;
  }
  for (const Program& program : programs) {
    if (std::ranges::find(topology->hosts, program.host, &fabric::HostDescription::name) ==
        topology->hosts.end()) {
      return print_error({ErrorCode::NotFound,
                          fmt::format("the fabric has no host {}; it has {} to {}", program.host,
                                      topology->hosts.front().name, topology->hosts.back().name)});
    }
  }
  const std::string name = fmt::format("run-{}", getpid());
  auto daemon = start_daemon({.name = name,
                              .is_bound = true,
                              .has_subnet_manager = options.links->has_subnet_manager,
                              .sm_priority = options.links->sm_priority,
                              .sm_port = options.links->sm_port,
                              .ibsim = options.links->ibsim,
                              .is_isolating = options.links->is_isolating},
                             *topology);
  if (!daemon) {
    return print_error(daemon.error());
  }
  if (auto entered = enter(name, programs.front().host); !entered) {
    return print_error(entered.error());
  }
  const int status = run_programs(name, std::move(programs), options.delay_seconds);
  if (has_ended(daemon->pid)) {
    fmt::print(stderr, "weft: weftd, the daemon of this run, ended before its programs did\n");
    clear_dead_fabrics();
    return status == 0 ? kFailed : status;
  }
  daemon->lifeline.reset();
  wait_for_end(daemon->pid);
  return status;
}

}  // namespace

void add_run(CLI::App& app, Outcome& outcome) {
  auto* const command = app.add_subcommand(
      "run", "Run programs on a fabric that is made for them and ends with them");
  auto options = std::make_shared<RunOptions>();
  command->add_option(
      "--fabric", options->fabric,
      fmt::format("{}, or a TOML or net file; default: pair", fabric::kGeneratorForms));
  // If it accepted several values, it would consume the -- after the first one.
  command->get_option("--fabric")->expected(1)->allow_extra_args(false);
  add_link_options(*command, options->links);
  command
      ->add_option("--on", options->on,
                   "Host and shell command; each starts once those before it listen")
      ->allow_extra_args(false)  // one pair per option
      ->type_name("HOST CMD");
  command->add_option("--delay", options->delay_seconds,
                      "Seconds between starts, instead of waiting until the earlier listen");
  command->add_option("command", options->command,
                      "A program for h1, behind --; pingpong and perftest programs also run on h2, "
                      "as clients of h1");
  command->footer("The exit status is that of the last program; the others are ended then.");
  command->callback([=, &outcome] { outcome.status = run(*options); });
}

}  // namespace weft::cli
