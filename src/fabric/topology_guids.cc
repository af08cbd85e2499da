#include <fmt/format.h>

#include <unordered_map>

#include "fabric/topology.h"
#include "fabric/topology_check.h"

namespace weft::fabric {

Guid guid_of(const Topology& topology, const EndPoint& end_point) {
  const std::uint32_t port = end_point.port.value();
  const Guid usual = make_guid(end_point.kind, end_point.node, end_point.hca, port);
  if (end_point.kind == NodeKind::Switch) {
    // IBTA vol 1 §14.2.5.3: all ports of a switch share its port GUID.
    return topology.switches[end_point.node].guid.value_or(
        make_guid(NodeKind::Switch, end_point.node, 0, 0));
  }
  const HcaDescription& hca = topology.hosts[end_point.node].hcas[end_point.hca];
  if (port == 0) {
    return hca.guid.value_or(usual);
  }
  if (const auto guid = hca.ports[port - 1].guid) {
    return *guid;
  }
  return hca.guid ? Guid{hca.guid->value() + port} : usual;
}

Result<void> internal::check_guids(const Topology& topology) {
  // Checked separately, since an HCA's node GUID may equal its first port's, and a switch's equals
  // port 0's.
  std::unordered_map<std::uint64_t, EndPoint> nodes;
  std::unordered_map<std::uint64_t, EndPoint> ports;
  const auto take = [&](auto& owners, const EndPoint& end) -> Result<void> {
    const Guid guid = guid_of(topology, end);
    if (guid.value() == 0) {
      return fail(ErrorCode::InvalidArgument, "{}: a GUID is not 0", to_string(topology, end));
    }
    const auto [found, is_new] = owners.try_emplace(guid.value(), end);
    if (!is_new) {
      return fail(ErrorCode::InvalidArgument, "{} and {} (port 0: the node) have one GUID, {:#x}",
                  to_string(topology, found->second), to_string(topology, end), guid.value());
    }
    return {};
  };
  for (std::uint32_t position = 0; position < topology.hosts.size(); ++position) {
    const HostDescription& host = topology.hosts[position];
    for (std::size_t hca = 0; hca < host.hcas.size(); ++hca) {
      EndPoint end{NodeKind::Host, position, static_cast<std::uint8_t>(hca), PortNumber{0}};
      if (auto taken = take(nodes, end); !taken) {
        return taken;
      }
      for (std::size_t port = 1; port <= host.hcas[hca].ports.size(); ++port) {
        end.port = PortNumber{static_cast<std::uint8_t>(port)};
        if (auto taken = take(ports, end); !taken) {
          return taken;
        }
      }
    }
  }
  for (std::uint32_t position = 0; position < topology.switches.size(); ++position) {
    const EndPoint end{NodeKind::Switch, position, 0, PortNumber{0}};
    for (auto* const owners : {&nodes, &ports}) {
      if (auto taken = take(*owners, end); !taken) {
        return taken;
      }
    }
  }
  return {};
}

}  // namespace weft::fabric
