#include <CLI/CLI.hpp>
#include <string>

#include "programs/control/on_host.h"
#include "programs/sa/commands.h"

namespace {

constexpr int kWrongUsage = 2;

}  // namespace

int main(int count, char** arguments) {
  namespace sa_tool = weft::programs::sa_tool;
  CLI::App app{"Asks for paths, services, groups and nodes, and says who has answered."};
  app.name("weft sa");
  app.require_subcommand(1);
  app.footer("Try:  weft up star 4;  weft sa mcast --host h1;  weft sa path --host h1 GID");
  std::string host;
  std::string fabric;
  std::string wanted;
  sa_tool::PathOptions path;
  bool skips_resolver = false;
  const auto add = [&](const char* name, const char* does) {
    auto* const command = app.add_subcommand(name, does);
    command->add_option("--host", host, "On this host; otherwise the one that it runs on");
    command->add_option("--name", fabric, "Name of the fabric");
    return command;
  };
  auto* const paths = add("path", "A path: first from the host's resolver, then from SA");
  paths->add_option("to", path.to, "GID; or a name or IP address that the resolver knows")
      ->required();
  paths->add_option("--from", path.from, "GID; otherwise the host's own");
  paths->add_option("--pkey", path.pkey, "Partition");
  paths->add_option("--service", path.service_id, "Service id");
  paths->add_option("--tclass", path.tclass, "Traffic class");
  paths->add_flag("--no-resolver", skips_resolver, "SA only");
  auto* const services = add("service", "Services that are registered");
  services->add_option("service", wanted, "Name of the service");
  auto* const nodes = add("node", "Nodes of the subnet");
  nodes->add_option("node", wanted,
                    "Its name, its LID, or a GUID of it or of a port of it (0x...)");
  add("mcast", "Members of multicast groups")->add_option("group", wanted, "MGID");
  try {
    app.parse(count, arguments);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kWrongUsage;
  }
  if (!host.empty()) {
    return weft::programs::run_on_host(host, fabric,
                                       weft::programs::without_host(count, arguments));
  }
  path.asks_resolver = !skips_resolver;
  if (*paths) {
    return sa_tool::find_path(path);
  }
  if (*services) {
    return sa_tool::find_services(wanted);
  }
  if (*nodes) {
    return sa_tool::find_nodes(wanted);
  }
  return sa_tool::find_members(wanted);
}
