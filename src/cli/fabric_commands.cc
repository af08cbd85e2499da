// weft up, down, exec and shell.

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "cli/daemon_process.h"
#include "cli/environment.h"
#include "cli/execute.h"
#include "cli/fabric_client.h"
#include "cli/fabric_name.h"
#include "cli/host_namespaces.h"
#include "cli/terminal.h"
#include "os/run_directory.h"

namespace weft::cli {
namespace {

int up(const std::vector<std::string>& words, const LinkOptions& links, const std::string& name) {
  const auto topology = topology_from(words, links);
  if (!topology) {
    return print_error(topology.error());
  }
  const auto daemon = start_daemon({.name = name,
                                    .has_subnet_manager = links.has_subnet_manager,
                                    .sm_priority = links.sm_priority,
                                    .sm_port = links.sm_port,
                                    .ibsim = links.ibsim,
                                    .is_isolating = links.is_isolating},
                                   *topology);
  if (!daemon) {
    return print_error(daemon.error());
  }
  fmt::print("fabric {} is up: {} hosts, {} switches (weftd, process {})\n", name,
             topology->hosts.size(), topology->switches.size(), daemon->pid);
  report_left_processes(name);
  return 0;
}

int down(const std::string& named) {
  const auto name = resolve_fabric_name(named);
  if (!name) {
    return print_error(name.error());
  }
  auto socket = connect_to(*name);
  if (!socket) {
    // A daemon that died has ended nobody. Any other error may be of one that lives.
    const bool is_gone = socket.error().code == ErrorCode::Refused;
    const std::string ended = is_gone ? end_left_processes(*name) : "";
    if (ended.empty()) {
      return print_error(socket.error());
    }
    fmt::print("fabric {} is down, since its daemon died; {}\n", *name, ended);
    return 0;
  }
  if (auto sent = socket->send(uabi::Down{}); !sent) {
    return print_error(sent.error());
  }
  std::string ended;  // programs in the hosts' namespaces
  while (true) {      // until the daemon closes the connection
    const auto received = socket->receive(kWaitLimit);
    if (!received) {
      if (received.error().code == ErrorCode::Refused) {
        break;
      }
      return print_error(received.error());
    }
    if (const auto* text = received->message.get_if<uabi::Text>()) {
      ended = text->text;
    }
  }
  fmt::print("fabric {} is down{}{}\n", *name, ended.empty() ? "" : "; ", ended);
  return 0;
}

/// Fails with a reason if the fabric has no such node.
Result<void> check_node(const std::string& fabric, const std::string& name) {
  const auto answer = ask(fabric, uabi::QueryKind::Status);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  const nlohmann::json status = nlohmann::json::parse(*answer);
  std::string first;
  std::string last;
  for (const auto& port : status["ports"]) {
    const std::string node = port["node"];
    if (node == name) {
      return {};
    }
    if (port["kind"] == "host") {
      first = first.empty() ? node : first;
      last = node;
    }
  }
  return fail(ErrorCode::NotFound, "fabric {} has no host or switch {}; its hosts are {} to {}",
              fabric, name, first, last);
}

struct ExecOptions {
  std::shared_ptr<std::string> fabric;
  std::string host;
  std::vector<std::string> command;
  bool has_namespaces{};
};

int exec(const ExecOptions& options) {
  const auto fabric = resolve_fabric_name(*options.fabric);
  if (!fabric) {
    return print_error(fabric.error());
  }
  if (auto checked = check_node(*fabric, options.host); !checked) {
    return print_error(checked.error());
  }
  if (auto entered = enter(*fabric, options.host); !entered) {
    return print_error(entered.error());
  }
  if (options.has_namespaces) {
    if (auto entered = enter_namespaces(*fabric, options.host); !entered) {
      return print_error(entered.error());
    }
    show_own_sys();
  }
  return execute(options.command);
}

/// The user's shell, as login knows it.
[[nodiscard]] std::string own_shell() {
  const char* const shell = std::getenv("SHELL");
  return shell != nullptr && *shell != '\0' ? shell : "/bin/sh";
}

}  // namespace

void add_up(CLI::App& app, Outcome& outcome) {
  auto* const command = app.add_subcommand("up", "Bring a fabric up; it stays until `weft down`");
  auto words = std::make_shared<std::vector<std::string>>();
  auto name = std::make_shared<std::string>(os::fabric_of_environment());
  command->add_option("topology", *words,
                      "pair (the default), another generator with its numbers (see `weft topology "
                      "generate --help`), or a file: TOML, or as ibnetdiscover and ibsim have it");
  command->add_option("--name", *name, "Name of the fabric, to have several")
      ->capture_default_str();
  auto links = std::make_shared<LinkOptions>();
  add_link_options(*command, links);
  command->callback([=, &outcome] { outcome.status = up(*words, *links, *name); });
}

void add_down(CLI::App& app, Outcome& outcome) {
  auto* const command = app.add_subcommand("down", "Take a fabric down");
  const auto name = add_fabric_name(*command);
  command->callback([=, &outcome] { outcome.status = down(*name); });
}

void add_exec(CLI::App& app, Outcome& outcome) {
  auto* const command =
      app.add_subcommand("exec",
                         "Run a program on a simulated host, as `weft exec h1 -- ibv_devinfo`; "
                         "programs that only speak "
                         "MADs run on switches, too, as `weft exec s1 -- ibnetdiscover`");
  auto options = std::make_shared<ExecOptions>();
  options->fabric = add_fabric_name(*command);
  command->add_flag("--ns", options->has_namespaces,
                    "In the host's own namespaces: its name, /sys, /dev/infiniband, /run and "
                    "network, without root");
  command->add_option("host", options->host, "The host, as h1, or a switch")->required();
  command->add_option("command", options->command, "The program and its arguments, after --")
      ->required();
  command->callback([=, &outcome] { outcome.status = exec(*options); });
}

void add_shell(CLI::App& app, Outcome& outcome) {
  auto* const command = app.add_subcommand(
      "shell", "A shell ($SHELL) on a simulated host, in the host's own namespaces");
  auto options = std::make_shared<ExecOptions>();
  options->fabric = add_fabric_name(*command);
  options->has_namespaces = true;
  command->add_option("host", options->host, "The host, as h1")->required();
  command->callback([=, &outcome] {
    options->command = {own_shell()};
    outcome.status = exec(*options);
  });
}

}  // namespace weft::cli
