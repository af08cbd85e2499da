#include "ulp/srp/managed_ports.h"

#include <map>
#include <utility>

#include "ulp/srp/discovery.h"

namespace weft::srp {

std::vector<ManagedPort> managed_ports(std::span<const wire::PortInfoRecord> ports,
                                       std::span<const wire::NodeRecord> nodes) {
  std::map<Lid, const wire::NodeRecord*> node_of;
  for (const wire::NodeRecord& node : nodes) {
    node_of.emplace(node.lid, &node);
  }
  std::map<Lid, ManagedPort> found;
  for (const wire::PortInfoRecord& record : ports) {
    const wire::PortInfo& port = record.port_info;
    const auto node = node_of.find(record.lid);
    const bool answers =
        port.capability_mask.has(wire::PortCapability::IsDeviceManagementSupported) &&
        port.port_state == wire::LinkState::Active && record.lid.is_unicast();
    if (answers && node != node_of.end()) {
      found.emplace(record.lid, ManagedPort{
                                    .lid = record.lid,
                                    .gid = Gid{port.gid_prefix, node->second->node_info.port_guid},
                                    .node = text_of(node->second->node_description.text)
      });
    }
  }
  std::vector<ManagedPort> all;
  for (auto& [lid, port] : found) {
    all.push_back(std::move(port));
  }
  return all;
}

}  // namespace weft::srp
