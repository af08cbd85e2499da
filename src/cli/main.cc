#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <string>
#include <utility>
#include <vector>

#include "cli/commands.h"
#include "cli/execute.h"
#include "cli/program_name.h"

namespace {

/// After a failed parse: a word in the place of a subcommand that is not one, and the command
/// before it, such as "weft topology". CLI11 itself only reports that a subcommand is required.
struct Unknown {
  std::string word;  // empty: the parse failed for another reason
  std::string command;
};

Unknown unknown_command(const CLI::App& app) {
  const CLI::App* command = &app;
  std::string name = app.get_name();
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
    name += " " + command->get_name();
  }
  if (command->get_require_subcommand_min() == 0) {
    return {};
  }
  const std::vector<std::string> rest = app.remaining(true);
  return rest.empty() || rest.front().starts_with('-')
             ? Unknown{}
             : Unknown{.word = rest.front(), .command = name};
}

bool has_subcommand(const CLI::App& app, const std::string& name) {
  return !app.get_subcommands([&](const CLI::App* command) { return command->get_name() == name; })
              .empty();
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{
      "An InfiniBand fabric in software: unmodified RDMA programs on simulated hosts, without "
      "hardware, kernel module or root."};
  app.name("weft");
  app.set_version_flag("--version", std::string{"weft "} + WEFT_VERSION);
  app.require_subcommand(1);
  app.footer(
      "Try:  weft run -- ib_write_bw\n"
      "      weft up star 4;  weft exec h1 -- ibv_devinfo;  weft status --counters;  weft down");
  weft::cli::Outcome outcome;
  weft::cli::add_run(app, outcome);
  weft::cli::add_up(app, outcome);
  weft::cli::add_down(app, outcome);
  weft::cli::add_status(app, outcome);
  weft::cli::add_exec(app, outcome);
  weft::cli::add_shell(app, outcome);
  weft::cli::add_topology(app, outcome);
  weft::cli::add_fault(app, outcome);
  weft::cli::add_link(app, outcome);
  weft::cli::add_port(app, outcome);
  weft::cli::add_node(app, outcome);
  weft::cli::add_vf(app, outcome);
  weft::cli::add_explain(app, outcome);
  weft::cli::add_capture(app, outcome);
  weft::cli::add_decode(app, outcome);
  if (const std::string name = count > 1 ? arguments[1] : ""; !has_subcommand(app, name)) {
    const bool is_san_boot = name == "san-boot";  // a command of weft-srp's with a name of its own
    if (const std::string program = weft::cli::program_for(is_san_boot ? "srp" : name);
        !program.empty()) {
      std::vector<std::string> command{program};
      command.insert(command.end(), arguments + (is_san_boot ? 1 : 2), arguments + count);
      return weft::cli::execute(std::move(command));
    }
  }
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    const Unknown unknown = error.get_exit_code() == 0 ? Unknown{} : unknown_command(app);
    if (!unknown.word.empty()) {
      fmt::print(stderr, "weft: unknown command '{}'; the commands are in {} --help\n",
                 unknown.word, unknown.command);
      return weft::cli::kWrongUsage;
    }
    return app.exit(error) == 0 ? 0 : weft::cli::kWrongUsage;
  }
  return outcome.status;
}
