#include <CLI/CLI.hpp>
#include <utility>

#include "programs/net/commands.h"

namespace {

constexpr int kWrongUsage = 2;

/// Which interface of the host is meant.
void take_place(CLI::App& command, auto& of) {
  command.add_option("--pkey", of.pkey, "Of the child of ib0 in that partition, as 0x8005")
      ->check(CLI::Range(1, 0xFFFF));
  command.add_option("--port", of.ports, "2: of ib1; --port 1 --port 2: of bond0, on either")
      ->check(CLI::Range(1, 0xFF))
      ->allow_extra_args(false);
}

}  // namespace

int main(int count, char** arguments) {
  namespace net = weft::programs::net;
  CLI::App app{"Network interfaces of simulated hosts: IP over InfiniBand, without root."};
  app.name("weft net");
  app.require_subcommand(1);
  app.footer("Try:  weft up star 4;  weft net up h1 h2;  weft exec --ns h1 -- ping -c 3 10.77.0.2");
  net::HostsOptions options;
  int status = 0;

  auto* const up = app.add_subcommand("up", "Give hosts an interface ib0, and wait until it is up");
  up->add_option("host", options.hosts, "Hosts, as h1 h2")->required();
  up->add_option("--name", options.fabric, "Name of the fabric");
  up->add_option("--address", options.addresses,
                 "Address with prefix, as 10.0.0.1/24, instead of 10.77.x.y/16; for one host")
      ->allow_extra_args(false);
  up->add_option("--mtu", options.mtu,
                 "Less than the link's, which is 2044 as a rule, or 65520 in connected mode");
  up->add_option("--mode", options.mode,
                 "datagram, connected over RC, connected-uc over UC, or connected-both (RFC 4755)")
      ->check(CLI::IsMember(net::mode_names()));
  take_place(*up, options);
  up->callback([&] { status = net::up(options); });

  auto* const down = app.add_subcommand("down", "Take it away");
  down->add_option("host", options.hosts, "Hosts, as h1 h2")->required();
  down->add_option("--name", options.fabric, "Name of the fabric");
  take_place(*down, options);
  down->callback([&] { status = net::down(options); });

  net::ShowOptions shown;
  for (const auto& [what, help] : {
           std::pair{"addr",  "The link address of 20 octets, group and addresses of ib0"},
           std::pair{"neigh", "Neighbours, with their link addresses"                    },
           std::pair{"stats", "Counters of the interface"                                }
  }) {
    auto* const show = app.add_subcommand(what, help);
    show->add_option("host", shown.host, "Host, as h1; otherwise the one that this runs on");
    show->add_option("--name", shown.fabric, "Name of the fabric");
    take_place(*show, shown);
    show->add_flag("--json", shown.is_json, "As JSON");
    show->callback([&shown, &status, what] {
      shown.what = what;
      status = net::show(shown);
    });
  }

  // What these run on the host; nobody else needs them.
  auto* const run = app.add_subcommand("run", "")->group("");
  run->add_option("--address", options.addresses)->allow_extra_args(false);
  run->add_option("--mtu", options.mtu);
  run->add_option("--mode", options.mode);
  take_place(*run, options);
  run->callback([&] { status = net::run_interface(options); });
  auto* const stop = app.add_subcommand("stop", "")->group("");
  take_place(*stop, options);
  stop->callback([&] { status = net::stop_interface(options); });

  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  return status;
}
