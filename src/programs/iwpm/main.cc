#include <CLI/CLI.hpp>
#include <string>

#include "programs/control/on_host.h"
#include "programs/iwpm/commands.h"

namespace {

constexpr int kWrongUsage = 2;

}  // namespace

int main(int count, char** arguments) {
  namespace iwpm = weft::programs::iwpm;
  CLI::App app{"The iWARP port mapper of a simulated host, in place of rdma-core's iwpmd."};
  app.name("weft iwpm");
  app.footer(
      "Try:  weft up star 2;  weft iwpm --host h1 &  weft iwpm map --host h1 10.77.0.1:5000");
  std::string host;
  std::string fabric;
  bool is_json = false;
  iwpm::MapOptions mapping;
  const auto on_host = [&](CLI::App* command) {
    command->add_option("--host", host, "On this host; otherwise the one that it runs on");
    command->add_option("--name", fabric, "Name of the fabric");
    return command;
  };
  on_host(&app);
  auto* const status = on_host(app.add_subcommand("status", "Say what it has mapped"));
  status->add_flag("--json", is_json, "As JSON");
  auto* const map =
      on_host(app.add_subcommand("map", "Ask for mapped addresses, as a driver does"));
  map->add_option("local", mapping.local, "Address, as 10.77.0.1:5000")->required();
  map->add_option("--remote", mapping.remote, "And that of a peer, to connect to");
  map->add_flag("--keep-port", mapping.keeps_port, "Only on record: the port stays as it is");
  map->add_flag("--hold", mapping.holds, "Keep it until the standard input ends");
  auto* const listen = on_host(app.add_subcommand("listen", "Take one TCP connection there"));
  listen->add_option("local", mapping.local, "Address, as 10.77.0.1:5000")->required();
  auto* const connect = on_host(app.add_subcommand("connect", "Connect to it by TCP"));
  connect->add_option("local", mapping.local, "Own address")->required();
  connect->add_option("remote", mapping.remote, "Where a peer listens")->required();
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  if (!host.empty()) {
    return weft::programs::run_on_host(host, fabric,
                                       weft::programs::without_host(count, arguments));
  }
  if (*status) {
    return iwpm::show_status(is_json);
  }
  if (*map) {
    return iwpm::map(mapping);
  }
  if (*listen) {
    return iwpm::listen(mapping.local);
  }
  return *connect ? iwpm::connect(mapping.local, mapping.remote) : iwpm::serve();
}
