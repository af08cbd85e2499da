// weft vf: virtual functions of HCA ports, each a host of its own.

#include <fmt/format.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.h"
#include "cli/fabric_client.h"
#include "cli/fabric_name.h"
#include "cli/function_table.h"
#include "cli/terminal.h"

namespace weft::cli {
namespace {

using nlohmann::json;

struct FunctionOptions {
  std::shared_ptr<std::string> fabric;
  std::string port;
  std::string moved;
  std::vector<std::string> names;
  bool is_forced{};
  bool is_unassigned{};
  bool as_json{};
  std::string pkeys;  // as node/node_change.h; empty, and none: not given
  std::optional<std::uint32_t> mads;
  std::optional<std::uint32_t> groups;
  std::string policy;  // the same, here and below
  std::string trust;
  std::string node_guid;  // of set
  std::string port_guid;
};

/// What a function is given, in the syntax of node/node_change.h.
[[nodiscard]] std::string quotas_of(const FunctionOptions& options) {
  std::string words = options.pkeys.empty() ? "" : " pkeys=" + options.pkeys;
  if (options.mads) {
    words += fmt::format(" mads={}", *options.mads);
  }
  if (options.groups) {
    words += fmt::format(" groups={}", *options.groups);
  }
  const auto add = [&words](std::string_view key, const std::string& value) {
    words += value.empty() ? "" : fmt::format(" {}={}", key, value);
  };
  add("policy", options.policy);
  add("trust", options.trust);
  add("node_guid", options.node_guid);
  add("port_guid", options.port_guid);
  return words;
}

void add_quotas(CLI::App& command, FunctionOptions& options) {
  command.add_option("--pkeys", options.pkeys,
                     "Its P_Key table: entries of the port's, as indexes or keys, in the order of "
                     "its own: 0x8005 or 2,0");
  command.add_option("--mads", options.mads,
                     "MADs a second that it may send by QP0 and QP1, those of its host's kernel "
                     "side included; 0: no limit");
  command.add_option("--groups", options.groups,
                     "Multicast groups that it may be in at a time; 0: no limit of its own");
  command.add_option("--policy", options.policy,
                     "What its port may be: down; up, at least Initialize; or follow, what follows "
                     "from the port that it shares");
  command.add_option("--trust", options.trust,
                     "on: its QPs may have the well-known Q_Key 0x80010000, as ibacm's do; off: "
                     "not, as from the start");
}

/// What only a function that is there can be given.
void add_guids(CLI::App& command, FunctionOptions& options) {
  command.add_option("--node-guid", options.node_guid,
                     "Its GUID, as 0x0002c90300000011; no programs may run there");
  command.add_option("--port-guid", options.port_guid,
                     "Its port's, the same way: that of its GID, which it has when SA knows it");
}

int change(const std::string& fabric, const std::string& words) {
  if (const auto done = ask(fabric, uabi::ChangeNode{.change = words}); !done) {
    return print_error(done.error());
  }
  return 0;
}

/// The ports of all virtual functions, as `weft status` has them; null as "function_of": of none.
[[nodiscard]] Result<std::vector<json>> functions_of(const std::string& fabric) {
  const auto answer = ask(fabric, uabi::QueryKind::Status);
  if (!answer) {
    return std::unexpected(answer.error());
  }
  const json status = json::parse(*answer);
  std::vector<json> functions;
  for (const json& port : status["ports"]) {
    if (port.contains("function_of")) {
      functions.push_back(port);
    }
  }
  return functions;
}

int list(const std::string& fabric) {
  const auto functions = functions_of(fabric);
  if (!functions) {
    return print_error(functions.error());
  }
  fmt::print("{:<14} {:<10} {:<10} {:>5} {}\n", "HOST", "OF", "STATE", "LID", "GID");
  for (const json& port : *functions) {
    const bool is_unassigned = port["function_of"].is_null();
    fmt::print("{:<14} {:<10} {:<10} {:>5} {}\n", port["node"].get<std::string>(),
               is_unassigned ? "-" : port["function_of"].get<std::string>(),
               is_unassigned ? "Unassigned" : port["state"].get<std::string>(),
               port["lid"].get<int>(), port["gid"].get<std::string>());
  }
  return 0;
}

/// All that one has, or all; one without a port has nothing to show.
int show_or_all(const FunctionOptions& options) {
  const std::string name = options.names.empty() ? "" : options.names.front();
  const auto functions = functions_of(*options.fabric);
  if (!functions) {
    return print_error(functions.error());
  }
  for (const json& port : *functions) {
    if (port["node"] == name && port["function_of"].is_null()) {
      return print_error(
          {ErrorCode::NotFound,
           fmt::format("{} has no port, and so nothing to show: `weft vf assign h1:1 {}` gives it "
                       "one",
                       name, name)});
    }
  }
  return show_functions(*options.fabric, name, options.as_json);
}

/// A request about each function.
int change_each(const FunctionOptions& options,
                const std::function<std::string(const std::string&)>& words_for) {
  for (const std::string& name : options.names) {
    if (const int status = change(*options.fabric, words_for(name)); status != 0) {
      return status;
    }
  }
  return 0;
}

int add(const FunctionOptions& options) {
  const std::string quotas = quotas_of(options);
  if (options.is_unassigned) {  // and the first word is the name of a host, too
    FunctionOptions all = options;
    all.names.insert(all.names.begin(), options.port);
    return change_each(
        all, [&](const std::string& name) { return fmt::format("add vf {}{}", name, quotas); });
  }
  if (options.names.empty()) {
    return print_error({ErrorCode::InvalidArgument,
                        "the name of its host is missing: weft vf add h1 v1, or weft vf add "
                        "--unassigned v1 without a port"});
  }
  return change_each(options, [&](const std::string& name) {
    return fmt::format("add vf {} of={}{}", name, options.port, quotas);
  });
}

int set(const FunctionOptions& options) {
  const std::string quotas = quotas_of(options);
  if (quotas.empty()) {
    return print_error({ErrorCode::InvalidArgument,
                        "nothing is to be set: --pkeys, --mads, --groups, --policy, --trust, "
                        "--node-guid and --port-guid say what"});
  }
  return change_each(
      options, [&](const std::string& name) { return fmt::format("set vf {}{}", name, quotas); });
}

int assign(const FunctionOptions& options) {
  return change_each(options, [&](const std::string& name) {
    return fmt::format("assign vf {} of={}", name, options.port);
  });
}

int unassign(const FunctionOptions& options) {
  return change_each(options,
                     [](const std::string& name) { return fmt::format("unassign vf {}", name); });
}

int migrate(const FunctionOptions& options) {
  return change(*options.fabric, fmt::format("move vf {} of={}", options.moved, options.port));
}

/// Only virtual functions: a host with a cable is `weft node`'s.
int remove(const FunctionOptions& options) {
  const auto functions = functions_of(*options.fabric);
  if (!functions) {
    return print_error(functions.error());
  }
  const std::string& name = options.names.front();
  for (const json& port : *functions) {
    if (port["node"] == name) {
      return change(*options.fabric,
                    fmt::format("remove {}{}", name, options.is_forced ? " force" : ""));
    }
  }
  return print_error({ErrorCode::NotFound,
                      fmt::format("{} is no virtual function; `weft vf list` has them", name)});
}

/// The subcommands that look.
void add_looks(CLI::App& command, const std::shared_ptr<FunctionOptions>& options,
               Outcome& outcome) {
  auto* const list_command = command.add_subcommand("list", "All functions, ports and GIDs");
  list_command->fallthrough();
  list_command->callback([=, &outcome] { outcome.status = list(*options->fabric); });

  auto* const show = command.add_subcommand(
      "show", "What functions have: P_Keys, quotas, groups, QPs, and what became of their MADs");
  show->fallthrough();
  show->add_option("name", options->names, "A function's host; without, all functions")
      ->expected(0, 1);
  show->add_flag("--json", options->as_json, "For scripts");
  show->callback([=, &outcome] { outcome.status = show_or_all(*options); });
}

/// The subcommands that give a function a port, and take it away.
void add_assignment(CLI::App& command, const std::shared_ptr<FunctionOptions>& options,
                    Outcome& outcome) {
  auto* const assign_command = command.add_subcommand(
      "assign", "Gives a port to functions that were added without one, or lost it");
  assign_command->fallthrough();
  assign_command->add_option("port", options->port, "h1, h1:1 or h1/weft1:2")->required();
  assign_command->add_option("names", options->names, "Their hosts")->required()->expected(1, -1);
  assign_command->footer("As: weft vf add --unassigned v1\n    weft vf assign h1:1 v1");
  assign_command->callback([=, &outcome] { outcome.status = assign(*options); });

  auto* const unassign_command = command.add_subcommand(
      "unassign", "Takes functions their port; they keep names, addresses, P_Keys and quotas");
  unassign_command->fallthrough();
  unassign_command->add_option("names", options->names, "Their hosts, on which no program runs")
      ->required()
      ->expected(1, -1);
  unassign_command->callback([=, &outcome] { outcome.status = unassign(*options); });
}

}  // namespace

void add_vf(CLI::App& app, Outcome& outcome) {
  auto* const command =
      app.add_subcommand("vf", "Virtual functions (SR-IOV): hosts that share the port of another");
  command->require_subcommand(1);
  auto options = std::make_shared<FunctionOptions>();
  options->fabric = add_fabric_name(*command);

  auto* const add_command = command->add_subcommand("add", "New virtual functions of a port");
  add_command->fallthrough();
  add_command->add_option("port", options->port, "h1, h1:1 or h1/weft1:2")->required();
  add_command->add_option("names", options->names, "Of the hosts that get them, as v1");
  add_command->add_flag("--unassigned", options->is_unassigned,
                        "Without a port: all words are names, and `weft vf assign` gives them one");
  add_quotas(*add_command, *options);
  add_command->footer(
      "As: weft vf add h1 v1 v2\n"
      "    weft vf add h1 v3 --pkeys 0x8005 --mads 100 --groups 8\n"
      "    weft vf add --unassigned v4\n"
      "A function's packets have the LID of the port and a GID of their own.");
  add_command->callback([=, &outcome] { outcome.status = add(*options); });

  auto* const set_command = command->add_subcommand(
      "set", "Changes P_Keys and quotas of functions; what is not named stays");
  set_command->fallthrough();
  set_command->add_option("names", options->names, "Their hosts")->required()->expected(1, -1);
  add_quotas(*set_command, *options);
  add_guids(*set_command, *options);
  set_command->callback([=, &outcome] { outcome.status = set(*options); });

  auto* const migrate_command =
      command->add_subcommand("migrate", "Moves a function to the port of another host");
  migrate_command->fallthrough();
  migrate_command->add_option("name", options->moved, "Its host")->required();
  migrate_command->add_option("port", options->port, "h3, h3:1 or h3/weft1:2")->required();
  migrate_command->footer(
      "As: weft vf migrate v1 h3\n"
      "Its GID, addresses, groups and programs go with it, and its LID is that of the new port.\n"
      "Connections that RC QPs had end with a retry exceeded, new ones find the new place.");
  migrate_command->callback([=, &outcome] { outcome.status = migrate(*options); });

  auto* const remove_command = command->add_subcommand("remove", "Takes a function away");
  remove_command->fallthrough();
  remove_command->add_option("name", options->names, "Its host")->required()->expected(1);
  remove_command->add_flag(
      "--force", options->is_forced,
      "Though programs run there: their devices are gone (IBV_EVENT_DEVICE_FATAL)");
  remove_command->callback([=, &outcome] { outcome.status = remove(*options); });

  add_assignment(*command, options, outcome);
  add_looks(*command, options, outcome);
}

}  // namespace weft::cli
