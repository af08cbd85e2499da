#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "os/heap.h"
#include "programs/iscsi/attach_command.h"
#include "programs/iscsi/load_command.h"
#include "programs/iscsi/target_command.h"
#include "programs/iser/iser_link.h"
#include "programs/iser/iser_portals.h"

int main(int count, char** arguments) {
  namespace program = weft::programs::iscsi;
  weft::os::use_one_heap();  // the device may have to know it (programs/rdma)
  CLI::App app{
      "iSER, both ends, over the RDMA devices of the host that it runs on; targets by TCP, too."};
  app.name("weft iser");
  app.set_version_flag("--version", std::string{"weft iser "} + WEFT_VERSION);
  app.require_subcommand(1);
  program::TargetOptions options{.program = "weft-iser", .default_portal = "iser:0.0.0.0:3260"};
  program::AttachOptions attached{.program = "weft-iser", .scheme = "iser"};
  program::LoadCommand load{.unit = attached, .load = {}};
  CLI::App& discover = program::add_discover_command(app, attached);
  CLI::App& attach = program::add_attach_command(app, attached);
  CLI::App& loads = program::add_load_command(app, load);
  std::string hello{"never"};
  for (CLI::App* const command : {&discover, &attach, &loads}) {
    command
        ->add_flag("--hello{agreed}", hello,
                   "Exchanges Hello messages after each login where the target agrees to it; "
                   "--hello=unasked: without asking it, as RFC 5046 has it")
        ->check(CLI::IsMember({"agreed", "unasked"}));
  }
  std::string device;
  program::add_target_command(app, options)
      .add_option("--device", device, "The RDMA device; default: the first");
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : program::kWrongUsage;
  }
  attached.session.hello = *program::hello_policy_of(hello);
  attached.links = weft::programs::iser::iser_links(attached.session.hello);
  load.unit.links = attached.links;
  if (discover.parsed()) {
    return program::run_discover(attached);
  }
  if (attach.parsed()) {
    return program::run_attach(attached);
  }
  if (loads.parsed()) {
    return program::run_load(load);
  }
  return program::run_target(
      options, [&device](asio::io_context& loop, weft::iscsi::TargetServer& server) {
        return std::make_unique<weft::programs::iser::IserPortals>(loop, server, device);
      });
}
