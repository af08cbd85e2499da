#pragma once

// For tests: hosts on an Omni-Path switch, with LIDs beyond 16 bits and routes, beside two hosts on
// an InfiniBand switch.

#include <cstdint>
#include <string_view>
#include <utility>

#include "base/identifiers.h"
#include "fabric/tables.h"
#include "fabric/topology.h"

namespace weft::fabric::testing {

/// o1 to o3 on switch os1, and h1 and h2 on switch s1.
inline Topology omni_path_beside_infiniband() {
  Topology topology = *generate("opa:star:3");
  const Topology infiniband = *generate_star(2);
  topology.switches.front().name = "os1";
  for (HostDescription& host : topology.hosts) {
    host.name.front() = 'o';
  }
  for (const HostDescription& host : infiniband.hosts) {
    topology.hosts.push_back(host);
  }
  topology.switches.push_back(infiniband.switches.front());
  for (LinkDescription link : infiniband.links) {
    for (EndPoint* const end : {&link.a, &link.b}) {
      end->node += end->kind == NodeKind::Host ? 3 : 1;
    }
    topology.links.push_back(link);
  }
  return topology;
}

/// LID of o1, o2 or o3.
inline constexpr ExtendedLid omni_path_lid(std::uint32_t host) {
  return ExtendedLid{0x12'3400 + host};
}
/// Of which o2 and o3 are members.
inline constexpr ExtendedLid kOmniPathGroup{0xF0'0002};

/// Assigns LIDs and routes to the Omni-Path part, and makes its ports Active.
inline void bring_up_omni_path(TablesBuilder& tables) {
  const NodeIndex hub = *tables.find_node("os1");
  const PortIndex base = tables.node(hub).first_port;
  const ExtendedLid own = omni_path_lid(9);
  tables.set_state(base, PortState::Active);
  tables.set_lid(base, own);
  tables.set_forwarding(hub, own, PortNumber{});
  for (std::uint8_t host = 1; host <= 3; ++host) {
    const PortIndex port = tables.port(PortIndex{base.value() + host}).peer;
    tables.set_link_state(port, PortState::Active);
    tables.set_lid(port, omni_path_lid(host));
    tables.set_forwarding(hub, omni_path_lid(host), PortNumber{host});
    tables.set_multicast(hub, kOmniPathGroup, PortNumber{host}, host != 1);
  }
}

}  // namespace weft::fabric::testing
