// weft link and weft port: cables and ports of a running fabric.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/fabric_client.h"
#include "cli/fabric_name.h"
#include "cli/terminal.h"

namespace weft::cli {
namespace {

int change(const std::string& fabric, const std::string& port, const std::string& words) {
  if (const auto done = ask(fabric, uabi::ChangePort{.port = port, .change = words}); !done) {
    return print_error(done.error());
  }
  return 0;
}

std::shared_ptr<std::string> add_port_name(CLI::App& command) {
  auto port = std::make_shared<std::string>();
  command
      .add_option("port", *port, "As h1:1 or s1:3; a node alone stands for all its cabled ports")
      ->required();
  return port;
}

}  // namespace

void add_link(CLI::App& app, Outcome& outcome) {
  auto* const command = app.add_subcommand("link", "Pull cables and put them back");
  command->require_subcommand(1);
  const auto name = add_fabric_name(*command);
  const auto add = [&](const char* verb, const char* words, const char* help) {
    auto* const subcommand = command->add_subcommand(verb, help);
    subcommand->fallthrough();
    const auto port = add_port_name(*subcommand);
    subcommand->callback([=, &outcome] { outcome.status = change(*name, *port, words); });
  };
  add("down", "unplug", "Pull the cable of a port: both ends go down");
  add("up", "plug", "Put it back: the link trains again");
}

void add_port(CLI::App& app, Outcome& outcome) {
  auto* const command = app.add_subcommand("port", "Set ports, as an administrator of their node");
  command->require_subcommand(1);
  const auto name = add_fabric_name(*command);
  auto* const set = command->add_subcommand("set", "Change a port");
  set->fallthrough();
  const auto port = add_port_name(*set);
  auto words = std::make_shared<std::vector<std::string>>();
  set->add_option("change", *words, "What to change, in any order")->required();
  set->footer(
      "disable, enable       the port's physical state; a disabled port stays down\n"
      "reset, down           the link trains again\n"
      "arm, active           its logical state, from Initialize on in this order\n"
      "width=1x,4x speed=qdr,edr   what the port may agree on with its peer; or all. The link\n"
      "                      trains again, and carries data at that rate\n"
      "As: weft port set s1:3 width=1x speed=sdr");
  set->callback([=, &outcome] {
    outcome.status = change(*name, *port, fmt::format("{}", fmt::join(*words, " ")));
  });
}

}  // namespace weft::cli
