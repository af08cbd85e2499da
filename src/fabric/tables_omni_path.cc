// The Omni-Path part of TablesBuilder: LIDs of 24 bits, and the forwarding tables by them.

#include <algorithm>

#include "base/assert.h"
#include "fabric/tables.h"

namespace weft::fabric {

void TablesBuilder::set_lid(PortIndex port, ExtendedLid lid) {
  WEFT_ASSERT(this->port(port).is_omni_path(), "the caller names what the fabric has");
  WEFT_ASSERT(lid == ExtendedLid{} || lid.is_unicast(), "the caller names what the fabric has");
  mutable_port(port).lid = Lid{lid.value()};
}

void TablesBuilder::set_forwarding(NodeIndex switch_node, ExtendedLid lid, PortNumber port) {
  NodeRecord& record = nodes_.at(switch_node.value());
  WEFT_ASSERT(lid.is_unicast() && this->port(record.first_port).is_omni_path() &&
                  record.kind == NodeKind::Switch,
              "the caller names what the fabric has");
  WEFT_ASSERT(port == kNoRoute || port.value() < record.port_count,
              "the caller names what the fabric has");
  std::vector<std::uint8_t>& table = forwarding_[switch_node.value()];
  if (table.empty()) {
    record.forwarding_first = lid.value();
  }
  if (lid.value() < record.forwarding_first) {
    table.insert(table.begin(), record.forwarding_first - lid.value(), kNoRoute.value());
    record.forwarding_first = lid.value();
  }
  const std::size_t at = lid.value() - record.forwarding_first;
  table.resize(std::max(table.size(), at + 1), kNoRoute.value());
  table[at] = port.value();
}

PortNumber TablesBuilder::forward(NodeIndex switch_node, ExtendedLid dlid) const {
  const std::vector<std::uint8_t>& table = forwarding_.at(switch_node.value());
  const std::uint32_t first = node(switch_node).forwarding_first;
  return dlid.value() >= first && dlid.value() - first < table.size()
             ? PortNumber{table[dlid.value() - first]}
             : kNoRoute;
}

void TablesBuilder::set_multicast(NodeIndex switch_node, ExtendedLid mlid, PortNumber port,
                                  bool forward) {
  WEFT_ASSERT(mlid.is_multicast(), "the caller names what the fabric has");
  set_group_port(switch_node, mlid.value() - ExtendedLid::kFirstGroup, port, forward);
}

void TablesBuilder::clear_multicast(NodeIndex switch_node) {
  multicast_.at(switch_node.value()).clear();
}

bool TablesBuilder::forwards_multicast(NodeIndex switch_node, ExtendedLid mlid,
                                       PortNumber port) const {
  const NodeRecord& record = node(switch_node);
  if (!mlid.is_multicast() || port.value() >= record.port_count) {
    return false;
  }
  const std::vector<std::uint8_t>& table = multicast_.at(switch_node.value());
  const std::size_t at =
      std::size_t{mlid.value() - ExtendedLid::kFirstGroup} * record.mask_bytes() +
      port.value() / 8U;
  return at < table.size() && (table[at] >> port.value() % 8 & 1) != 0;
}

}  // namespace weft::fabric
