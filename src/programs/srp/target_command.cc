#include "programs/srp/target_command.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdio>

#include "programs/iscsi/target_command.h"
#include "programs/srp/target_names.h"
#include "programs/srp/target_service.h"

namespace weft::programs::srp {

CLI::App& add_target_command(CLI::App& app, TargetOptions& options) {
  CLI::App& target =
      *app.add_subcommand("target", "Offers disks until it is told to end (SIGTERM)");
  target
      .add_option("--portal", options.portals, "HOST:PORT to listen on, several times; port 0: any")
      ->default_str(fmt::format("0.0.0.0:{}", kDefaultPort));
  target.add_option(
      "--lun", options.units,
      "A disk: ram:64M, or the path of a file; with ,ro or ,bs=4096. The first is LUN 0");
  target
      .add_option("--name", options.name,
                  "The target's identifier extension, hexadecimal; default: the device's GUID")
      ->needs("--lun");
  target
      .add_option("--allow", options.allowed,
                  "Who may log in: a port identifier, a GUID, or an IP address; default: all")
      ->needs("--lun");
  target.add_option("--config", options.configuration, "A TOML file; SIGHUP reads it again");
  target.add_option("--device", options.devices,
                    "An RDMA device to serve, several times; default: all that there are");
  target.add_flag("--no-srq", options.no_srq,
                  "Each channel has receive buffers of its own; default: all share some by an SRQ "
                  "where the device has them");
  target.add_flag("--no-wait", options.no_wait,
                  "End where there is no RDMA device, or the last goes; default: wait for one");
  return target;
}

Result<iscsi::Configuration> configuration_of(const TargetOptions& options) {
  iscsi::Configuration configuration;
  if (!options.configuration.empty()) {
    auto read = iscsi::read_configuration(options.configuration);
    if (!read) {
      return read;
    }
    configuration = *std::move(read);
  }
  if (!options.units.empty()) {
    iscsi::TargetConfiguration target{.name = options.name, .initiators = options.allowed};
    for (const std::string& text : options.units) {
      auto unit = iscsi::parse_unit(text, static_cast<std::uint16_t>(target.units.size()));
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
    configuration.portals = {fmt::format("0.0.0.0:{}", kDefaultPort)};
  }
  if (configuration.targets.empty()) {
    return fail(ErrorCode::InvalidArgument, "no target: give --lun, or a --config with [[target]]");
  }
  for (const iscsi::TargetConfiguration& target : configuration.targets) {
    if (const auto names = names_of(target, Guid{}); !names) {
      return std::unexpected(names.error());
    }
  }
  return configuration;
}

int run_target(const TargetOptions& options) {
  const auto configuration = configuration_of(options);
  if (!configuration) {
    fmt::print(stderr, "weft-srp: {}\n", configuration.error().reason);
    return iscsi::kWrongUsage;
  }
  auto service = TargetService::start(
      *configuration,
      {.devices = options.devices, .uses_srq = !options.no_srq, .waits = !options.no_wait},
      [options] { return configuration_of(options); });
  if (!service) {
    fmt::print(stderr, "weft-srp: {}\n", service.error().reason);
    return iscsi::kFailed;
  }
  const auto ended = (*service)->run();
  service->reset();
  if (!ended) {
    fmt::print(stderr, "weft-srp: {}\n", ended.error().reason);
    return iscsi::kFailed;
  }
  return 0;
}

}  // namespace weft::programs::srp
