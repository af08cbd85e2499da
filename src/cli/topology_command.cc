// weft topology.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstdio>
#include <map>
#include <memory>
#include <utility>

#include "cli/commands.h"
#include "cli/fabric_client.h"
#include "cli/terminal.h"
#include "fabric/topology_graph.h"
#include "fabric/topology_net.h"

namespace weft::cli {
namespace {

enum class Form : std::uint8_t { Toml, Net, Dot, Svg };

int write(const Result<fabric::Topology>& topology, Form form) {
  if (!topology) {
    return print_error(topology.error());
  }
  switch (form) {
    case Form::Toml:
      fmt::print("{}", fabric::write_topology(*topology));
      return 0;
    case Form::Net:
      fmt::print("{}", fabric::write_net(*topology));
      return 0;
    case Form::Dot:
      fmt::print("{}", fabric::write_dot(*topology));
      return 0;
    case Form::Svg:
      fmt::print("{}", fabric::write_svg(*topology));
      return 0;
  }
  std::unreachable();
}

void add_form(CLI::App& command, const std::shared_ptr<Form>& form) {
  const std::map<std::string, Form> names = {
      {"toml", Form::Toml},
      {"net",  Form::Net },
      {"dot",  Form::Dot },
      {"svg",  Form::Svg }
  };
  command
      .add_option("--to", *form,
                  "toml (the default), net (as ibsim reads it), dot (for Graphviz) or svg")
      ->transform(CLI::CheckedTransformer(names, CLI::ignore_case).description(""));
}

}  // namespace

void add_topology(CLI::App& app, Outcome& outcome) {
  auto* const command = app.add_subcommand("topology", "Make, look at and convert topology files");
  command->require_subcommand(1);
  auto words = std::make_shared<std::vector<std::string>>();
  auto form = std::make_shared<Form>(Form::Toml);
  auto links = std::make_shared<LinkOptions>();

  auto* const generate =
      command->add_subcommand("generate", "Write a topology file to standard output");
  generate->add_option("kind", *words, std::string{fabric::kGeneratorForms})->required();
  add_link_options(*generate, links);
  add_form(*generate, form);
  generate->callback([=, &outcome] {
    auto topology = fabric::generate(fmt::format("{}", fmt::join(*words, " ")));
    if (topology) {
      if (auto applied = apply(*links, *topology); !applied) {
        topology = std::unexpected(applied.error());
      }
    }
    outcome.status = write(topology, *form);
  });

  constexpr const char* kAnyTopology =
      "A TOML file, a net file as ibnetdiscover prints and ibsim reads it, or what `generate` "
      "takes";
  auto* const convert =
      command->add_subcommand("convert", "Write a topology in another form to standard output");
  convert->add_option("topology", *words, kAnyTopology)->required();
  add_form(*convert, form);
  convert->callback([=, &outcome] { outcome.status = write(topology_from(*words, {}), *form); });

  auto* const show = command->add_subcommand("show", "Print a topology as text");
  show->add_option("topology", *words, kAnyTopology)->required();
  show->callback([=, &outcome] {
    const auto topology = topology_from(*words, {});
    if (!topology) {
      outcome.status = print_error(topology.error());
      return;
    }
    fmt::print("{}", fabric::show(*topology));
  });
}

}  // namespace weft::cli
