#include <CLI/CLI.hpp>
#include <string>
#include <utility>

#include "os/heap.h"
#include "programs/control/on_host.h"
#include "programs/iscsi/target_command.h"
#include "programs/srp/attach_command.h"
#include "programs/srp/boot_command.h"
#include "programs/srp/discover_command.h"
#include "programs/srp/initiator_command.h"
#include "programs/srp/load_command.h"
#include "programs/srp/status_command.h"
#include "programs/srp/target_command.h"

int main(int count, char** arguments) {
  namespace program = weft::programs::srp;
  weft::os::use_one_heap();  // the device may have to know it (programs/rdma)
  CLI::App app{"SRP, both ends, over the RDMA devices of the host that it runs on."};
  app.name("weft srp");
  app.set_version_flag("--version", std::string{"weft srp "} + WEFT_VERSION);
  app.require_subcommand(1);
  program::TargetOptions options;
  program::add_target_command(app, options);
  program::AttachOptions attached;
  const CLI::App& attach = program::add_attach_command(app, attached);
  program::BootOptions booted;
  const CLI::App& boot = program::add_boot_command(app, booted);
  program::StatusOptions asked;
  const CLI::App& status = program::add_status_command(app, asked);
  program::DiscoverOptions wanted;
  const CLI::App& discover = program::add_discover_command(app, wanted);
  program::InitiatorCommand initiator;
  const CLI::App& initiates = program::add_initiator_command(app, initiator);
  program::LoadCommand load;
  const CLI::App& loads = program::add_load_command(app, load);
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : weft::programs::iscsi::kWrongUsage;
  }
  for (const auto& [host, fabric] : {
           std::pair{asked.host,     asked.fabric    },
           {wanted.host,    wanted.fabric   },
           {initiator.host, initiator.fabric}
  }) {
    if (!host.empty()) {
      return weft::programs::run_on_host(host, fabric,
                                         weft::programs::without_host(count, arguments));
    }
  }
  if (initiates.parsed()) {
    return program::run_initiator(initiator);
  }
  if (status.parsed()) {
    return program::run_status(asked);
  }
  if (discover.parsed()) {
    return program::run_discover(wanted);
  }
  if (loads.parsed()) {
    return program::run_load(load);
  }
  if (boot.parsed()) {
    return program::run_boot(booted);
  }
  return attach.parsed() ? program::run_attach(attached) : program::run_target(options);
}
