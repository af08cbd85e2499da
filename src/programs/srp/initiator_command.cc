#include "programs/srp/initiator_command.h"

#include <fmt/format.h>

#include <cstdio>

#include "programs/iscsi/target_command.h"

namespace weft::programs::srp {

CLI::App& add_initiator_command(CLI::App& app, InitiatorCommand& command) {
  CLI::App& added = *app.add_subcommand(
      "initiator",
      "Has add_target in /sys of a host as a namespace, by which srp_daemon -e logs in, until it "
      "is told to end; units are NBD on sockets");
  added.add_option("--host", command.host, "On this host; otherwise the one that it runs on");
  added.add_option("--name", command.fabric, "Name of the fabric");
  added.add_option("--nbd", command.options.sockets, "The folder for sockets")
      ->default_str(command.options.sockets);
  added
      .add_option("--fast-fail", command.options.fast_fail_seconds,
                  "Seconds until requests fail, after a connection was lost")
      ->default_val(command.options.fast_fail_seconds)
      ->check(CLI::Range(1, 600));
  added
      .add_option("--dev-loss", command.options.dev_loss_seconds,
                  "Seconds until the target is given up, after a connection was lost")
      ->default_val(command.options.dev_loss_seconds)
      ->check(CLI::Range(1, 86400));
  return added;
}

int run_initiator(const InitiatorCommand& command) {
  const auto service = InitiatorService::start(command.options);
  if (!service) {
    fmt::print(stderr, "weft-srp: {}\n", service.error().reason);
    return iscsi::kFailed;
  }
  for (const std::string& file : (*service)->files()) {
    fmt::print("lines are taken by {}\n", file);
  }
  std::fflush(stdout);
  (*service)->run();
  return 0;
}

}  // namespace weft::programs::srp
