// weft node: adds hosts and switches to a running fabric, or removes them.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/fabric_client.h"
#include "cli/fabric_name.h"
#include "cli/terminal.h"

namespace weft::cli {
namespace {

struct NodeOptions {
  std::shared_ptr<std::string> fabric;
  std::vector<std::string> node;  // its name, optionally preceded by its kind
  std::vector<std::string> links;
  std::uint32_t ports{};
  std::uint32_t hcas{};
  bool is_forced{};
};

int change(const std::string& fabric, const std::string& words) {
  if (const auto done = ask(fabric, uabi::ChangeNode{.change = words}); !done) {
    return print_error(done.error());
  }
  return 0;
}

/// Builds the request in the syntax of node/node_change.h.
[[nodiscard]] std::string words_of(const NodeOptions& options) {
  std::string words = fmt::format("add {}{}", options.node.size() == 1 ? "host " : "",
                                  fmt::join(options.node, " "));
  for (const std::string& link : options.links) {
    words += " link=" + link;
  }
  if (options.hcas != 0) {
    words += fmt::format(" hcas={}", options.hcas);
  }
  if (options.ports != 0) {
    words += fmt::format(" ports={}", options.ports);
  }
  return words;
}

}  // namespace

void add_node(CLI::App& app, Outcome& outcome) {
  auto* const command =
      app.add_subcommand("node", "Add nodes to a fabric that is up, or remove them");
  command->require_subcommand(1);
  auto options = std::make_shared<NodeOptions>();
  options->fabric = add_fabric_name(*command);

  auto* const add = command->add_subcommand("add", "A new host or switch with its cables");
  add->fallthrough();
  add->add_option("node", options->node, "h9 or host h9, or switch s5")->required()->expected(1, 2);
  add->add_option("--link", options->links,
                  "A free port of the fabric; the node's own ports are cabled in order")
      ->required()
      ->expected(1)
      ->take_all();
  add->add_option("--ports", options->ports, "Of a switch, or of each HCA of a host (1)");
  add->add_option("--hcas", options->hcas, "Of a host (1)");
  add->footer(
      "As: weft node add h9 --link s1:7\n"
      "    weft node add switch s5 --ports 8 --link s1:8 --link s2:8\n"
      "The subnet manager learns of it from the switch at the other end and sweeps. Cables are "
      "like\n"
      "the fabric's first one.");
  add->callback([=, &outcome] { outcome.status = change(*options->fabric, words_of(*options)); });

  auto* const remove = command->add_subcommand("remove", "A host or switch, with its cables");
  remove->fallthrough();
  remove->add_option("node", options->node, "Its name")->required()->expected(1);
  remove->add_flag("--force", options->is_forced,
                   "Though programs run there: their devices are gone (IBV_EVENT_DEVICE_FATAL)");
  remove->callback([=, &outcome] {
    outcome.status = change(*options->fabric, fmt::format("remove {}{}", options->node.front(),
                                                          options->is_forced ? " force" : ""));
  });
}

}  // namespace weft::cli
