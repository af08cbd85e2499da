#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "programs/iscsi/target_command.h"
#include "programs/iser/iser_portals.h"

int main(int count, char** arguments) {
  namespace program = weft::programs::iscsi;
  CLI::App app{
      "iSCSI targets by iSER, over the RDMA devices of the host that it runs on, and by TCP."};
  app.name("weft iser");
  app.set_version_flag("--version", std::string{"weft iser "} + WEFT_VERSION);
  app.require_subcommand(1);
  program::TargetOptions options{.program = "weft-iser", .default_portal = "iser:0.0.0.0:3260"};
  std::string device;
  program::add_target_command(app, options)
      .add_option("--device", device, "The RDMA device; default: the first");
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : program::kWrongUsage;
  }
  return program::run_target(
      options, [&device](asio::io_context& loop, weft::iscsi::TargetServer& server) {
        return std::make_unique<weft::programs::iser::IserPortals>(loop, server, device);
      });
}
