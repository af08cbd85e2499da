// Forwarding tables of TablesBuilder in blocks, as subnet management reads and writes them.

#include <algorithm>

#include "base/assert.h"
#include "fabric/tables.h"
#include "fabric/tables_image.h"

namespace weft::fabric {
namespace {

constexpr std::uint32_t kPortsPerMask = 16;

}  // namespace

void TablesBuilder::set_forwarding_top(NodeIndex switch_node, Lid top) {
  forwarding_top_.at(switch_node.value()) = top.value();
}

PortNumber TablesBuilder::forward(NodeIndex switch_node, Lid dlid) const {
  const std::vector<std::uint8_t>& table = forwarding_[switch_node.value()];
  const bool is_known =
      dlid.value() < table.size() && dlid.value() <= forwarding_top_[switch_node.value()];
  return is_known ? PortNumber{table[dlid.value()]} : kNoRoute;
}

bool TablesBuilder::set_forwarding_block(NodeIndex switch_node, std::uint32_t block,
                                         std::span<const std::byte, kForwardingBlock> ports) {
  WEFT_ASSERT(node(switch_node).kind == NodeKind::Switch && block < kFirstMlid / kForwardingBlock,
              "the caller names what the fabric has");
  const std::uint32_t port_count = node(switch_node).port_count;
  std::vector<std::uint8_t>& table = forwarding_[switch_node.value()];
  const std::size_t begin = block * kForwardingBlock;
  bool is_changed = false;
  for (std::size_t i = 0; i < kForwardingBlock; ++i) {
    const auto wanted = std::to_integer<std::uint8_t>(ports[i]);
    const std::uint8_t entry = wanted < port_count && begin + i != 0 ? wanted : kNoRoute.value();
    if (begin + i >= table.size()) {
      if (entry == kNoRoute.value()) {
        continue;
      }
      table.resize(begin + kForwardingBlock, kNoRoute.value());
    }
    is_changed |= table[begin + i] != entry;
    table[begin + i] = entry;
  }
  return is_changed;
}

void TablesBuilder::get_forwarding_block(NodeIndex switch_node, std::uint32_t block,
                                         std::span<std::byte, kForwardingBlock> ports) const {
  const std::vector<std::uint8_t>& table = forwarding_.at(switch_node.value());
  const std::size_t begin = block * kForwardingBlock;
  for (std::size_t i = 0; i < kForwardingBlock; ++i) {
    ports[i] = begin + i < table.size() ? static_cast<std::byte>(table[begin + i])
                                        : static_cast<std::byte>(kNoRoute.value());
  }
}

bool TablesBuilder::set_multicast_mask(NodeIndex switch_node, Lid mlid, std::uint32_t position,
                                       std::uint16_t mask) {
  WEFT_ASSERT(mlid.is_multicast() && node(switch_node).kind == NodeKind::Switch,
              "the caller names what the fabric has");
  const std::uint32_t first = position * kPortsPerMask;
  const std::uint32_t port_count = node(switch_node).port_count;
  const std::uint32_t before = multicast_mask(switch_node, mlid, position);
  bool is_changed = false;
  for (std::uint32_t i = 0; i < kPortsPerMask && first + i < port_count; ++i) {
    if (((before ^ mask) >> i & 1) != 0) {
      set_multicast(switch_node, mlid, PortNumber{static_cast<std::uint8_t>(first + i)},
                    (mask >> i & 1) != 0);
      is_changed = true;
    }
  }
  return is_changed;
}

bool TablesBuilder::forwards_multicast(NodeIndex switch_node, Lid mlid, PortNumber port) const {
  const std::uint16_t mask = multicast_mask(switch_node, mlid, port.value() / kPortsPerMask);
  return (mask >> port.value() % kPortsPerMask & 1) != 0;
}

std::uint16_t TablesBuilder::multicast_mask(NodeIndex switch_node, Lid mlid,
                                            std::uint32_t position) const {
  const std::uint32_t mask_bytes = node(switch_node).mask_bytes();
  const std::vector<std::uint8_t>& table = multicast_.at(switch_node.value());
  const std::size_t begin = std::size_t{mlid.value() - kFirstMlid} * mask_bytes;
  std::uint32_t mask = 0;
  for (std::uint32_t i = 0; i < kPortsPerMask / 8; ++i) {
    const std::uint32_t octet = position * (kPortsPerMask / 8) + i;
    if (octet < mask_bytes && begin + octet < table.size()) {
      mask |= std::uint32_t{table[begin + octet]} << (8 * i);
    }
  }
  return static_cast<std::uint16_t>(mask);
}

}  // namespace weft::fabric
