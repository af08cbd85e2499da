#include "subnet/subnet.h"

#include <algorithm>

#include "base/assert.h"

namespace weft::subnet {

NodeId Subnet::add_node(const wire::NodeInfo& info) {
  const NodeId id{static_cast<std::uint32_t>(nodes_.size())};
  [[maybe_unused]] const bool is_new = node_of_guid_.emplace(info.node_guid, id).second;
  WEFT_ASSERT(is_new, "a node is added once");
  SubnetNode& node = nodes_.emplace_back();
  node.info = info;
  node.ports.resize(std::size_t{info.port_count} + 1);
  for (std::size_t i = 0; i < node.ports.size(); ++i) {
    node.ports[i].number = PortNumber{static_cast<std::uint8_t>(i)};
  }
  if (node.is_switch()) {
    set_port_guid({id, PortNumber{}}, info.port_guid);
  } else if (info.local_port.value() < node.ports.size()) {
    set_port_guid({id, info.local_port}, info.port_guid);
  }
  return id;
}

void Subnet::set_port_guid(PortId port, Guid guid) {
  this->port(port).guid = guid;
  port_of_guid_[guid] = port;
}

void Subnet::connect(PortId a, PortId b) {
  port(a).peer = b;
  port(b).peer = a;
}

void Subnet::set_lids(PortId port, Lid base, std::uint8_t lmc) {
  SubnetPort& record = this->port(port);
  const auto for_each_lid = [&](auto&& visit) {
    for (std::uint32_t i = 0; record.info.lid != Lid{} && i < record.lid_count(); ++i) {
      visit(record.info.lid.value() + i);
    }
  };
  for_each_lid([&](std::uint32_t lid) {
    if (lid < port_of_lid_.size() && port_of_lid_[lid] == port) {
      port_of_lid_[lid] = {};
    }
  });
  record.info.lid = base;
  record.info.lmc = lmc;
  for_each_lid([&](std::uint32_t lid) {
    if (lid >= port_of_lid_.size()) {
      port_of_lid_.resize(lid + 1);
    }
    port_of_lid_[lid] = port;
  });
  while (!port_of_lid_.empty() && port_of_lid_.back().node == kNoNode) {
    port_of_lid_.pop_back();
  }
  highest_lid_ = port_of_lid_.empty() ? 0 : static_cast<std::uint32_t>(port_of_lid_.size() - 1);
}

std::optional<NodeId> Subnet::find_node(Guid node_guid) const {
  const auto found = node_of_guid_.find(node_guid);
  return found == node_of_guid_.end() ? std::nullopt : std::optional{found->second};
}

std::optional<PortId> Subnet::find_port(Guid port_guid) const {
  const auto found = port_of_guid_.find(port_guid);
  return found == port_of_guid_.end() ? std::nullopt : std::optional{found->second};
}

std::optional<PortId> Subnet::find_lid(Lid lid) const {
  if (lid.value() >= port_of_lid_.size() || port_of_lid_[lid.value()].node == kNoNode) {
    return std::nullopt;
  }
  return port_of_lid_[lid.value()];
}

std::optional<PortId> Subnet::find_gid(const Gid& gid) const {
  if (gid.prefix() != subnet_prefix && gid.prefix() != kDefaultGidPrefix) {
    return std::nullopt;
  }
  if (const auto port = find_port(gid.interface_id())) {
    return port;
  }
  // alias GUIDs: rare, so a linear search suffices
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    for (const SubnetPort& port : nodes_[i].ports) {
      if (gid.interface_id() != Guid{} &&
          std::ranges::find(port.guids, gid.interface_id()) != port.guids.end()) {
        return PortId{NodeId{i}, port.number};
      }
    }
  }
  return std::nullopt;
}

}  // namespace weft::subnet
