#include <CLI/CLI.hpp>

#include <string>

#include "cli/commands.h"

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
  weft::cli::add_topology(app, outcome);
  weft::cli::add_fault(app, outcome);
  weft::cli::add_link(app, outcome);
  weft::cli::add_port(app, outcome);
  weft::cli::add_node(app, outcome);
  weft::cli::add_capture(app, outcome);
  weft::cli::add_decode(app, outcome);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : weft::cli::kWrongUsage;
  }
  return outcome.status;
}
