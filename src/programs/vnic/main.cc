#include <CLI/CLI.hpp>

#include "programs/vnic/commands.h"

namespace {

constexpr int kWrongUsage = 2;

}  // namespace

int main(int count, char** arguments) {
  namespace vnic = weft::programs::vnic;
  CLI::App app{"Virtual Ethernet NICs of simulated hosts as Omni-Path has them, without root."};
  app.name("weft vnic");
  app.require_subcommand(1);
  app.footer(
      "Try:  weft up star 2;  weft em up h1 switches.toml;  weft vnic up h1 h2;  weft exec --ns h1 "
      "-- ping -c 3 10.78.0.2");
  vnic::HostsOptions options;
  bool skips_wait = false;
  int status = 0;

  auto* const up = app.add_subcommand("up",
                                      "Give hosts the interfaces that an Ethernet Manager "
                                      "configures, and wait until the first is up");
  up->add_option("host", options.hosts, "Hosts, as h1 h2")->required();
  up->add_option("--name", options.fabric, "Name of the fabric");
  up->add_option("--address", options.addresses,
                 "Address with prefix of opa0, as 10.0.0.1/24, instead of 10.78.x.y/16; for one "
                 "host")
      ->allow_extra_args(false);
  up->add_option("--mtu", options.mtu, "Less than the virtual switch's");
  up->add_flag("--no-wait", skips_wait, "Do not wait for an Ethernet Manager");
  up->callback([&] {
    options.waits = !skips_wait;
    status = vnic::up(options);
  });

  auto* const down = app.add_subcommand("down", "Take them away");
  down->add_option("host", options.hosts, "Hosts, as h1 h2")->required();
  down->add_option("--name", options.fabric, "Name of the fabric");
  down->callback([&] { status = vnic::down(options); });

  std::string host;
  bool is_json = false;
  auto* const show = app.add_subcommand("show", "The interfaces of a host, and their counters");
  show->add_option("host", host, "Host, as h1; otherwise the one that this runs on");
  show->add_option("--name", options.fabric, "Name of the fabric");
  show->add_flag("--json", is_json, "As JSON");
  show->callback([&] { status = vnic::show(host, options.fabric, is_json); });

  // What these run on the host; nobody else needs them.
  auto* const run = app.add_subcommand("run", "")->group("");
  run->add_option("--address", options.addresses)->allow_extra_args(false);
  run->add_option("--mtu", options.mtu);
  run->add_flag("--no-wait", skips_wait);
  run->callback([&] {
    options.waits = !skips_wait;
    status = vnic::run_interfaces(options);
  });
  auto* const stop = app.add_subcommand("stop", "")->group("");
  stop->callback([&] { status = vnic::stop_interfaces(); });

  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  return status;
}
