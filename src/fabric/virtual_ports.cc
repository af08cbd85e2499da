#include "fabric/virtual_ports.h"

namespace weft::fabric {
namespace {

/// The port of the function with this number; kNoPort if there is none.
[[nodiscard]] PortIndex port_of_function(const TablesView& view, PortIndex physical,
                                         std::uint32_t function) {
  const auto gids = view.gids(view.port(physical));
  if (function == 0 || function >= gids.size()) {
    return kNoPort;
  }
  const PortIndex port = view.owner_of(gids[function]);
  const bool is_virtual = port != kNoPort && port != physical && view.port(port).peer == kNoPort &&
                          view.port(port).lid == view.port(physical).lid;
  return is_virtual ? port : kNoPort;
}

}  // namespace

PortIndex physical_port(const TablesView& view, PortIndex port) {
  const PortRecord& record = view.port(port);
  if (record.peer != kNoPort || record.is_switch_port() || record.lid == Lid{}) {
    return port;
  }
  return view.owner_of(record.lid);
}

PortIndex port_of_qp(const TablesView& view, Lid lid, Qpn qpn) {
  const PortIndex owner = view.owner_of(lid);
  if (owner == kNoPort || view.slot_loans().empty()) {
    return owner;
  }
  const PortIndex port = view.borrower_of(view.port(owner).node, slot_of(qpn));
  const bool is_at_this_port = port != kNoPort && view.port(port).lid == view.port(owner).lid;
  return is_at_this_port ? port : owner;
}

PortIndex port_of_node(const TablesView& view, NodeIndex node, Lid lid) {
  const PortIndex owner = view.owner_of(lid);
  if (owner == kNoPort || view.port(owner).node == node) {
    return owner;
  }
  const NodeRecord& record = view.node(node);
  for (std::uint32_t i = 0; i < record.port_count; ++i) {
    const PortIndex port{record.first_port.value() + i};
    if (view.port(port).owns(lid)) {
      return port;
    }
  }
  return kNoPort;
}

std::vector<PortIndex> functions_of(const TablesView& view, PortIndex physical) {
  std::vector<PortIndex> found;
  for (std::uint32_t function = 1; function < view.port(physical).gid_count; ++function) {
    const PortIndex port = port_of_function(view, physical, function);
    if (port != kNoPort) {
      found.push_back(port);
    }
  }
  return found;
}

}  // namespace weft::fabric
