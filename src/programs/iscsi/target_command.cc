#include "programs/iscsi/target_command.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <utility>

#include "programs/iscsi/service.h"

namespace weft::programs::iscsi {

CLI::App& add_target_command(CLI::App& app, TargetOptions& options) {
  CLI::App& target =
      *app.add_subcommand("target", "Offers disks until it is told to end (SIGTERM)");
  target
      .add_option("--portal", options.portals, "HOST:PORT to listen on, several times; port 0: any")
      ->default_str(options.default_portal);
  target.add_option("--target", options.target,
                    "iSCSI Name of a target, as iqn.2026-01.org.example:disks");
  target
      .add_option(
          "--lun", options.units,
          "A disk: ram:64M, or the path of a file; with ,ro or ,bs=4096. The first is LUN 0")
      ->needs("--target");
  target.add_option("--initiator", options.initiators, "iSCSI Name that may log in; default: all")
      ->needs("--target");
  target
      .add_option("--chap-file", options.chap_file,
                  "Secrets: who may log in, and as whom the target answers")
      ->needs("--target");
  target.add_option("--config", options.configuration, "A TOML file; SIGHUP reads it again");
  return target;
}

Result<Configuration> configuration_of(const TargetOptions& options) {
  Configuration configuration;
  if (!options.configuration.empty()) {
    auto read = read_configuration(options.configuration);
    if (!read) {
      return read;
    }
    configuration = *std::move(read);
  }
  if (!options.target.empty()) {
    TargetConfiguration target{.name = options.target,
                               .alias = {},
                               .units = {},
                               .initiators = options.initiators,
                               .chap_file = options.chap_file};
    for (const std::string& text : options.units) {
      auto unit = parse_unit(text, static_cast<std::uint16_t>(target.units.size()));
      if (!unit) {
        return std::unexpected(unit.error());
      }
      target.units.push_back(*std::move(unit));
    }
    configuration.targets.push_back(std::move(target));
  }
  if (!options.portals.empty()) {
    configuration.portals = options.portals;
  }
  if (configuration.portals.empty()) {
    configuration.portals = {options.default_portal};
  }
  if (configuration.targets.empty()) {
    return fail(ErrorCode::InvalidArgument,
                "no target: give --target and --lun, or a --config with [[target]]");
  }
  return configuration;
}

int run_target(const TargetOptions& options, const MakeTransport& make_transport) {
  const auto configuration = configuration_of(options);
  if (!configuration) {
    fmt::print(stderr, "{}: {}\n", options.program, configuration.error().reason);
    return kWrongUsage;
  }
  const auto service = Service::start(
      *configuration, [options] { return configuration_of(options); }, make_transport);
  if (!service) {
    fmt::print(stderr, "{}: {}\n", options.program, service.error().reason);
    return kFailed;
  }
  for (const std::string& address : (*service)->addresses()) {
    fmt::print("listening on {}\n", address);
  }
  std::fflush(stdout);
  (*service)->run();
  return 0;
}

}  // namespace weft::programs::iscsi
