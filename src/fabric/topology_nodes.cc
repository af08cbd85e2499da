#include "fabric/topology_nodes.h"

#include <fmt/format.h>

#include <optional>

namespace weft::fabric::internal {

EndPoint host_end(std::uint32_t host) { return {NodeKind::Host, host, 0, PortNumber{1}}; }

EndPoint switch_end(std::uint32_t node, std::uint32_t port) {
  return {NodeKind::Switch, node, 0, PortNumber{static_cast<std::uint8_t>(port)}};
}

LinkDescription cable(EndPoint a, EndPoint b) { return {a, b, std::nullopt, Duration{}}; }

Topology make_nodes(std::uint32_t hosts, std::uint32_t switches, std::uint32_t ports_per_switch) {
  Topology topology;
  topology.hosts.reserve(hosts);
  for (std::uint32_t host = 1; host <= hosts; ++host) {
    topology.hosts.push_back(make_host(fmt::format("h{}", host)));
  }
  topology.switches.reserve(switches);
  for (std::uint32_t node = 1; node <= switches; ++node) {
    SwitchDescription& description = topology.switches.emplace_back();
    description.name = fmt::format("s{}", node);
    description.port_count = static_cast<std::uint8_t>(ports_per_switch);
  }
  return topology;
}

void cable_hosts(Topology& topology, std::uint32_t switches, std::uint32_t each) {
  for (std::uint32_t host = 0; host < switches * each; ++host) {
    topology.links.push_back(cable(host_end(host), switch_end(host / each, host % each + 1)));
  }
}

Result<void> check_lids(std::string_view what, std::uint64_t hosts, std::uint64_t switches) {
  if (hosts + switches > kUnicastLids) {
    return fail(ErrorCode::InvalidArgument,
                "{} has {} hosts and {} switches, but a subnet has {} unicast LIDs", what, hosts,
                switches, kUnicastLids);
  }
  return {};
}

}  // namespace weft::fabric::internal
