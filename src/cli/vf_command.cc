// weft vf: virtual functions of HCA ports, each a host of its own.

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/fabric_client.h"
#include "cli/fabric_name.h"
#include "cli/terminal.h"

namespace weft::cli {
namespace {

using nlohmann::json;

struct FunctionOptions {
  std::shared_ptr<std::string> fabric;
  std::string port;
  std::vector<std::string> names;
  bool is_forced{};
};

int change(const std::string& fabric, const std::string& words) {
  if (const auto done = ask(fabric, uabi::ChangeNode{.change = words}); !done) {
    return print_error(done.error());
  }
  return 0;
}

/// The ports of all virtual functions, as `weft status` has them.
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
    fmt::print("{:<14} {:<10} {:<10} {:>5} {}\n", port["node"].get<std::string>(),
               port["function_of"].get<std::string>(), port["state"].get<std::string>(),
               port["lid"].get<int>(), port["gid"].get<std::string>());
  }
  return 0;
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

}  // namespace

void add_vf(CLI::App& app, Outcome& outcome) {
  auto* const command =
      app.add_subcommand("vf", "Virtual functions (SR-IOV): hosts that share the port of another");
  command->require_subcommand(1);
  auto options = std::make_shared<FunctionOptions>();
  options->fabric = add_fabric_name(*command);

  auto* const add = command->add_subcommand("add", "New virtual functions of a port");
  add->fallthrough();
  add->add_option("port", options->port, "h1, h1:1 or h1/weft1:2")->required();
  add->add_option("names", options->names, "Of the hosts that get them, as v1")
      ->required()
      ->expected(1, -1);
  add->footer(
      "As: weft vf add h1 v1 v2\n"
      "A function's packets have the LID of the port and a GID of their own.");
  add->callback([=, &outcome] {
    for (const std::string& name : options->names) {
      outcome.status =
          change(*options->fabric, fmt::format("add vf {} of={}", name, options->port));
      if (outcome.status != 0) {
        return;
      }
    }
  });

  auto* const remove_command = command->add_subcommand("remove", "Takes a function away");
  remove_command->fallthrough();
  remove_command->add_option("name", options->names, "Its host")->required()->expected(1);
  remove_command->add_flag(
      "--force", options->is_forced,
      "Though programs run there: their devices are gone (IBV_EVENT_DEVICE_FATAL)");
  remove_command->callback([=, &outcome] { outcome.status = remove(*options); });

  auto* const list_command = command->add_subcommand("list", "All functions, ports and GIDs");
  list_command->fallthrough();
  list_command->callback([=, &outcome] { outcome.status = list(*options->fabric); });
}

}  // namespace weft::cli
