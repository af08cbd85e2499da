#include <CLI/CLI.hpp>
#include <string>

#include "programs/iscsi/target_command.h"

int main(int count, char** arguments) {
  namespace program = weft::programs::iscsi;
  CLI::App app{"iSCSI targets by TCP: without a fabric, a daemon, a kernel module or root."};
  app.name("weft iscsi");
  app.set_version_flag("--version", std::string{"weft iscsi "} + WEFT_VERSION);
  app.require_subcommand(1);
  program::TargetOptions options{.program = "weft-iscsi", .default_portal = "127.0.0.1:3260"};
  program::add_target_command(app, options);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : program::kWrongUsage;
  }
  return program::run_target(options, {});
}
