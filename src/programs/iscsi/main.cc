#include <CLI/CLI.hpp>
#include <string>

#include "programs/iscsi/attach_command.h"
#include "programs/iscsi/load_command.h"
#include "programs/iscsi/target_command.h"

int main(int count, char** arguments) {
  namespace program = weft::programs::iscsi;
  CLI::App app{"iSCSI by TCP, both ends: without a fabric, a daemon, a kernel module or root."};
  app.name("weft iscsi");
  app.set_version_flag("--version", std::string{"weft iscsi "} + WEFT_VERSION);
  app.require_subcommand(1);
  program::TargetOptions options{.program = "weft-iscsi", .default_portal = "127.0.0.1:3260"};
  program::add_target_command(app, options);
  program::AttachOptions attached;
  const CLI::App& discover = program::add_discover_command(app, attached);
  const CLI::App& attach = program::add_attach_command(app, attached);
  program::LoadCommand load;
  const CLI::App& loads = program::add_load_command(app, load);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : program::kWrongUsage;
  }
  if (discover.parsed()) {
    return program::run_discover(attached);
  }
  if (loads.parsed()) {
    return program::run_load(load);
  }
  return attach.parsed() ? program::run_attach(attached) : program::run_target(options, {});
}
