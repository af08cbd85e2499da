#include <CLI/CLI.hpp>
#include <string>

#include "programs/em/commands.h"

namespace {

constexpr int kWrongUsage = 2;

}  // namespace

int main(int count, char** arguments) {
  namespace em = weft::programs::em;
  CLI::App app{
      "The Ethernet Manager: virtual Ethernet switches whose ports are hosts' virtual NICs."};
  app.name("weft em");
  app.require_subcommand(1);
  app.footer(
      "Try:  weft up star 2;  weft em up h1 switches.toml;  weft vnic up h1 h2;  weft em show h1");
  em::Where where;
  std::string file;
  bool is_json = false;
  int status = 0;
  const auto add = [&](const char* name, const char* does) {
    auto* const command = app.add_subcommand(name, does);
    command->add_option("--name", where.fabric, "Name of the fabric");
    return command;
  };

  auto* const up = add("up", "Start it on a host, with a file of virtual switches");
  up->add_option("host", where.host, "Host, as h1")->required();
  up->add_option("file", file, "TOML; docs/guide/opa-vnic.md shows one")->required();
  std::uint8_t trap_sl = 0;
  const auto take_trap_sl = [&](CLI::App& command) {
    command.add_option("--trap-sl", trap_sl, "Service level by which hosts send it their traps")
        ->check(CLI::Range(0, 15));
  };
  take_trap_sl(*up);
  up->callback([&] { status = em::up(where, file, trap_sl); });
  auto* const load = add("load", "Give it another file; ports that are in both go on");
  load->add_option("host", where.host, "Host, as h1")->required();
  load->add_option("file", file, "TOML")->required();
  load->callback([&] { status = em::load(where, file); });
  auto* const down = add("down", "End it; virtual switches stay as they are");
  down->add_option("host", where.host, "Host, as h1")->required();
  down->callback([&] { status = em::down(where); });
  auto* const show = add("show", "Virtual switches, their ports, states and counters");
  show->add_option("host", where.host, "Host, as h1; otherwise the one that this runs on");
  show->add_flag("--json", is_json, "As JSON");
  show->callback([&] { status = em::show(where, is_json); });

  // What these run on the host; nobody else needs them.
  auto* const run = app.add_subcommand("run", "")->group("");
  run->add_option("file", file)->required();
  take_trap_sl(*run);
  run->callback([&] { status = em::run_manager(file, trap_sl); });
  auto* const load_here = app.add_subcommand("load-here", "")->group("");
  load_here->add_option("file", file)->required();
  load_here->callback([&] { status = em::load({}, file); });
  auto* const stop = app.add_subcommand("stop", "")->group("");
  stop->callback([&] { status = em::stop_manager(); });

  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  return status;
}
