#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "programs/iscsi/configuration.h"
#include "programs/iscsi/service.h"

namespace {

namespace program = weft::programs::iscsi;

constexpr int kFailed = 1;
constexpr int kWrongUsage = 2;

struct TargetOptions {
  std::vector<std::string> portals;
  std::string target;
  std::vector<std::string> units;
  std::vector<std::string> initiators;
  std::string chap_file;
  std::string configuration;
};

/// Options and file together.
[[nodiscard]] weft::Result<program::Configuration> configuration_of(const TargetOptions& options) {
  program::Configuration configuration;
  if (!options.configuration.empty()) {
    auto read = program::read_configuration(options.configuration);
    if (!read) {
      return read;
    }
    configuration = *std::move(read);
  }
  if (!options.target.empty()) {
    program::TargetConfiguration target{.name = options.target,
                                        .alias = {},
                                        .units = {},
                                        .initiators = options.initiators,
                                        .chap_file = options.chap_file};
    for (const std::string& text : options.units) {
      auto unit = program::parse_unit(text, static_cast<std::uint16_t>(target.units.size()));
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
    configuration.portals = {"127.0.0.1:3260"};
  }
  if (configuration.targets.empty()) {
    return weft::fail(weft::ErrorCode::InvalidArgument,
                      "no target: give --target and --lun, or a --config with [[target]]");
  }
  return configuration;
}

[[nodiscard]] int run_target(const TargetOptions& options) {
  const auto configuration = configuration_of(options);
  if (!configuration) {
    fmt::print(stderr, "weft-iscsi: {}\n", configuration.error().reason);
    return kWrongUsage;
  }
  const auto service =
      program::Service::start(*configuration, [options] { return configuration_of(options); });
  if (!service) {
    fmt::print(stderr, "weft-iscsi: {}\n", service.error().reason);
    return kFailed;
  }
  for (const std::string& address : (*service)->addresses()) {
    fmt::print("listening on {}\n", address);
  }
  std::fflush(stdout);
  (*service)->run();
  return 0;
}

}  // namespace

int main(int count, char** arguments) {
  CLI::App app{"iSCSI targets by TCP: without a fabric, a daemon, a kernel module or root."};
  app.name("weft iscsi");
  app.set_version_flag("--version", std::string{"weft iscsi "} + WEFT_VERSION);
  app.require_subcommand(1);
  TargetOptions options;
  CLI::App& target =
      *app.add_subcommand("target", "Offers disks until it is told to end (SIGTERM)");
  target
      .add_option("--portal", options.portals, "HOST:PORT to listen on, several times; port 0: any")
      ->default_str("127.0.0.1:3260");
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
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  return run_target(options);
}
