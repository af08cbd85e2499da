// weft fault: fault rules of a running fabric.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/fabric_client.h"
#include "cli/fabric_name.h"
#include "cli/terminal.h"
#include "fabric/fault_description.h"

namespace weft::cli {
namespace {

using nlohmann::json;

/// Adds a rule; it may be given as one quoted argument or as several.
int add(const std::string& fabric, const std::vector<std::string>& words) {
  const std::string rule = fmt::format("{}", fmt::join(words, " "));
  const auto number = ask(fabric, uabi::AddFault{.rule = rule});
  if (!number) {
    return print_error(number.error());
  }
  fmt::print("fault {}: {}\n", *number, rule);
  return 0;
}

[[nodiscard]] std::string state_of(const json& fault) {
  return fault["has_ended"].get<bool>() ? "ended" : fault["is_spent"].get<bool>() ? "spent" : "on";
}

int list(const std::string& fabric, bool as_json) {
  const auto answer = ask(fabric, uabi::QueryKind::Faults);
  if (!answer) {
    return print_error(answer.error());
  }
  if (as_json) {
    fmt::print("{}\n", *answer);
    return 0;
  }
  const json faults = json::parse(*answer);
  if (faults.empty()) {
    fmt::print("no faults\n");
    return 0;
  }
  fmt::print("{:>5} {:<6} {:>12} {:>12}  {}\n", "FAULT", "STATE", "MATCHED", "HIT", "RULE");
  for (const json& fault : faults) {
    fmt::print("{:>5} {:<6} {:>12} {:>12}  {}\n", fault["number"].get<unsigned>(), state_of(fault),
               fault["matched"].get<std::uint64_t>(), fault["hit"].get<std::uint64_t>(),
               fault["rule"].get<std::string>());
  }
  return 0;
}

int clear(const std::string& fabric, const std::vector<std::uint32_t>& numbers) {
  for (const std::uint32_t number : numbers.empty() ? std::vector<std::uint32_t>{0} : numbers) {
    if (const auto done = ask(fabric, uabi::ClearFaults{.number = number}); !done) {
      return print_error(done.error());
    }
  }
  return 0;
}

constexpr const char* kHelp =
    "A rule is a kind and words in any order:\n"
    "  drop                   the link loses the packet (PortXmitDiscards of the sending port)\n"
    "  corrupt                it arrives with a wrong CRC and is discarded (PortRcvErrors)\n"
    "  duplicate, reorder     it comes twice; it is held back by 100us, or by=TIME\n"
    "  down                   the link is down, both ways, as for=200ms; ports tell their "
    "programs\n"
    "  p=0.01 [seed=N]        each packet with this probability; or every=N; without both, each\n"
    "  after=N count=N        so many pass first; at most so many are hit\n"
    "  link=h1:1              the link of that port, both ways; out= what the port sends, in= "
    "what\n"
    "                         it receives; a node stands for all of its ports; without, every "
    "link\n"
    "  opcode=rc-send-*       by name, * is any text; may be repeated\n"
    "  psn=A-B slid= dlid= qp=  by PSN, LIDs and destination QP number\n"
    "  for=10s                the rule ends by itself\n"
    "As: weft fault add 'drop every=100 out=h1:1 opcode=*-ack*'";

}  // namespace

void add_fault(CLI::App& app, Outcome& outcome) {
  auto* const command =
      app.add_subcommand("fault", "Cause faults of links, see what they hit, end them");
  command->require_subcommand(1);
  const auto name = add_fabric_name(*command);

  auto* const add_command = command->add_subcommand("add", "Add a rule; prints its number");
  add_command->fallthrough();
  auto words = std::make_shared<std::vector<std::string>>();
  add_command->add_option("rule", *words, "The rule, as: drop p=0.01 link=h1:1")->required();
  add_command->footer(kHelp);
  add_command->callback([=, &outcome] { outcome.status = add(*name, *words); });

  auto* const list_command =
      command->add_subcommand("list", "All rules, how many packets each has met, and hit");
  list_command->fallthrough();
  auto as_json = std::make_shared<bool>(false);
  list_command->add_flag("--json", *as_json, "For scripts");
  list_command->callback([=, &outcome] { outcome.status = list(*name, *as_json); });

  auto* const clear_command = command->add_subcommand("clear", "End rules and forget their counts");
  clear_command->fallthrough();
  auto numbers = std::make_shared<std::vector<std::uint32_t>>();
  clear_command->add_option("fault", *numbers, "Their numbers; without, all")
      ->check(CLI::PositiveNumber);
  clear_command->callback([=, &outcome] { outcome.status = clear(*name, *numbers); });
}

}  // namespace weft::cli
