#include "subnet/sm_setup.h"

#include <algorithm>

#include "subnet/routing/multicast.h"

namespace weft::subnet {
namespace {

constexpr std::uint32_t kPKeysPerBlock = 32;
constexpr std::uint32_t kGuidsPerBlock = 8;
constexpr std::uint32_t kPortsPerPosition = 16;
constexpr std::uint32_t kMulticastPositionShift = 28;  // IBTA vol 1 §14.2.5.12

[[nodiscard]] std::uint32_t blocks(std::size_t entries, std::size_t per_block) {
  return static_cast<std::uint32_t>((entries + per_block - 1) / per_block);
}

[[nodiscard]] PKey with_membership(PKey pkey, Partition::Membership membership) {
  constexpr std::uint16_t kFull = 0x8000;
  return PKey{static_cast<std::uint16_t>(pkey.base() |
                                         (membership == Partition::Membership::Full ? kFull : 0))};
}

[[nodiscard]] std::uint16_t position_bits(const PortMask& mask, std::uint32_t position) {
  std::uint16_t bits = 0;
  for (std::uint32_t i = 0; i < kPortsPerPosition; ++i) {
    bits = static_cast<std::uint16_t>(bits | mask.test(position * kPortsPerPosition + i) << i);
  }
  return bits;
}

}  // namespace

Setup::Setup(Subnet& subnet, const SubnetManagerOptions& options, const RoutingGraph& graph,
             const Routing& routing, const MulticastGroups& groups)
    : subnet_(subnet), options_(options), graph_(graph), routing_(routing), groups_(groups) {
  std::size_t ports = 0;
  for (const SubnetNode& node : subnet.nodes()) {
    first_port_.push_back(static_cast<std::uint32_t>(ports));
    ports += node.ports.size();
  }
  reported_.reserve(ports);
  for (const SubnetNode& node : subnet.nodes()) {
    for (const SubnetPort& port : node.ports) {
      reported_.push_back(port.info);
    }
  }
}

wire::PortInfo& Setup::reported(PortId port) {
  return reported_[first_port_[port.node.value()] + port.number.value()];
}

const wire::PortInfo& Setup::reported(PortId port) const {
  return reported_[first_port_[port.node.value()] + port.number.value()];
}

void Setup::plan(PortId to, wire::SmpAttribute attribute, std::uint32_t modifier) {
  requests_.push_back(
      {.to = to, .egress = {}, .attribute = attribute, .modifier = modifier, .is_set = true});
}

std::optional<SmpRequest> Setup::next() {
  if (next_ == requests_.size()) {
    requests_.clear();
    next_ = 0;
    return std::nullopt;
  }
  return requests_[next_++];
}

void Setup::plan_tables(const Known& known) {
  for (std::uint32_t i = 0; i < subnet_.nodes().size(); ++i) {
    const NodeId node{i};
    for (const SubnetPort& port : subnet_.node(node).ports) {
      if (port.guid != Guid{} && port.info.lid != Lid{}) {
        plan_pkeys({node, port.number});
      }
      plan_lanes({node, port.number});
    }
    if (subnet_.node(node).is_switch() && subnet_.node(node).switch_info) {
      plan_forwarding(node, known.forwarding[i]);
    }
  }
  plan_multicast(known);
  for (const NodeId node : graph_.switches) {
    if (subnet_.node(node).switch_info) {
      plan_switch_info(node);
    }
  }
}

void Setup::plan_forwarding(NodeId node, bool is_known) {
  SubnetNode& record = subnet_.node(node);
  const std::vector<PortNumber>& wanted = routing_.forwarding[graph_.position_of[node.value()]];
  const std::uint32_t capacity = record.switch_info->linear_fdb_cap;
  record.forwarding.resize(wanted.size(), wire::kNoForwardingPort);
  for (std::uint32_t block = 0; block * wire::kLinearBlockLids < wanted.size(); ++block) {
    const auto begin = block * wire::kLinearBlockLids;
    const auto end = std::min<std::size_t>(begin + wire::kLinearBlockLids, wanted.size());
    if (begin < capacity &&
        (!is_known ||
         !std::equal(wanted.begin() + static_cast<std::ptrdiff_t>(begin),
                     wanted.begin() + static_cast<std::ptrdiff_t>(end),
                     record.forwarding.begin() + static_cast<std::ptrdiff_t>(begin)))) {
      plan({node, PortNumber{}}, wire::SmpAttribute::LinearForwardingTable, block);
    }
  }
}

wire::SwitchInfo Setup::wanted_switch_info(NodeId node) const {
  wire::SwitchInfo info = *subnet_.node(node).switch_info;
  info.linear_fdb_top = static_cast<std::uint16_t>(
      std::min<std::uint32_t>(graph_.lid_end, std::max<std::uint32_t>(info.linear_fdb_cap, 1)) - 1);
  info.lifetime_exponent = options_.packet_life_time;
  return info;
}

void Setup::plan_switch_info(NodeId node) {
  const wire::SwitchInfo& now = *subnet_.node(node).switch_info;
  if (now.port_state_change || now != wanted_switch_info(node)) {
    plan({node, PortNumber{}}, wire::SmpAttribute::SwitchInfo, 0);
  }
}

/// One tree per group; roots are assigned round-robin.
void Setup::wanted_multicast() {
  masks_.assign(graph_.size(), {});
  const std::vector<std::uint32_t> roots = tree_roots(graph_);
  std::map<std::uint32_t, SpanningTree> trees;
  for (const auto& [mlid, members] : groups_) {
    std::vector<TreeMember> at;
    for (const auto& [guid, role] : members) {
      const auto port = subnet_.find_port(guid);
      if (!port) {
        continue;
      }
      const bool receives = role == MulticastRole::Full;
      const PortId hook = subnet_.node(port->node).is_switch() ? *port : subnet_.port(*port).peer;
      if (hook.node != kNoNode && subnet_.node(hook.node).is_switch()) {
        at.push_back({graph_.position_of[hook.node.value()], hook.number, receives});
      }
    }
    if (at.empty() || roots.empty()) {
      continue;
    }
    const std::uint32_t group = mlid.value() - kFirstMulticastLid.value();
    const std::uint32_t root = roots[group % roots.size()];
    const auto tree = trees.try_emplace(root);
    if (tree.second) {
      tree.first->second = grow_tree(graph_, root);
    }
    const std::vector<PortMask> masks = multicast_masks(graph_, tree.first->second, at);
    for (std::uint32_t i = 0; i < graph_.size(); ++i) {
      if (masks[i].any()) {
        masks_[i].resize(std::max<std::size_t>(masks_[i].size(), group + 1));
        masks_[i][group] = masks[i];
      }
    }
  }
}

PortMask Setup::wanted_mask(NodeId node, std::uint32_t group) const {
  const std::vector<PortMask>& wanted = masks_[graph_.position_of[node.value()]];
  return group < wanted.size() ? wanted[group] : PortMask{};
}

void Setup::plan_multicast(const Known& known) {
  wanted_multicast();
  for (const NodeId node : graph_.switches) {
    if (subnet_.node(node).switch_info) {
      plan_multicast_of(node, known.multicast[node.value()]);
    }
  }
}

void Setup::plan_multicast_of(NodeId node, bool is_known) {
  SubnetNode& record = subnet_.node(node);
  const std::uint32_t capacity = std::min<std::uint32_t>(
      record.switch_info->multicast_fdb_cap, kPermissiveLid.value() - kFirstMulticastLid.value());
  const std::vector<PortMask>& wanted = masks_[graph_.position_of[node.value()]];
  const std::size_t groups = std::min<std::size_t>(
      capacity, is_known ? std::max(wanted.size(), record.multicast.size()) : capacity);
  record.multicast.resize(std::max(groups, record.multicast.size()));
  for (std::uint32_t block = 0; block < blocks(groups, wire::kMulticastBlockLids); ++block) {
    for (std::uint32_t position = 0; position * kPortsPerPosition < record.ports.size();
         ++position) {
      bool differs = !is_known;
      for (std::uint32_t i = 0; i < wire::kMulticastBlockLids && !differs; ++i) {
        const std::uint32_t group = block * std::uint32_t{wire::kMulticastBlockLids} + i;
        const PortMask now = group < record.multicast.size() ? record.multicast[group] : PortMask{};
        differs = position_bits(now, position) != position_bits(wanted_mask(node, group), position);
      }
      if (differs) {
        plan({node, PortNumber{}}, wire::SmpAttribute::MulticastForwardingTable,
             position << kMulticastPositionShift | block);
      }
    }
  }
}

/// The partitions of a port in configuration order, the default partition first.
std::vector<PKey> Setup::wanted_pkeys(PortId port) const {
  const SubnetPort& record = subnet_.port(port);
  if (!options_.partitions) {
    std::vector<PKey> pkeys = record.pkeys;
    const bool is_empty = std::ranges::none_of(pkeys, &PKey::is_valid);
    if (is_empty && !pkeys.empty()) {
      pkeys[0] = kDefaultPKey;
    }
    return pkeys;
  }
  std::vector<PKey> pkeys;
  for (const Partition& partition : *options_.partitions) {
    const auto found = partition.members.find(record.guid);
    const Partition::Membership membership =
        found == partition.members.end() ? partition.default_membership : found->second;
    if (membership != Partition::Membership::None) {
      pkeys.push_back(with_membership(partition.pkey, membership));
    }
  }
  pkeys.resize(std::min<std::size_t>(std::max(pkeys.size(), record.pkeys.size()),
                                     subnet_.node(port.node).info.partition_cap));
  return pkeys;
}

void Setup::plan_pkeys(PortId port) {
  std::vector<PKey>& now = subnet_.port(port).pkeys;
  const std::vector<PKey> wanted = wanted_pkeys(port);
  now.resize(blocks(std::max(now.size(), wanted.size()), kPKeysPerBlock) * kPKeysPerBlock);
  for (std::uint32_t block = 0; block < now.size() / kPKeysPerBlock; ++block) {
    bool differs = false;
    for (std::uint32_t i = block * kPKeysPerBlock; i < (block + 1) * kPKeysPerBlock; ++i) {
      differs = differs || now[i] != (i < wanted.size() ? wanted[i] : PKey{});
    }
    if (differs) {
      plan(port, wire::SmpAttribute::PKeyTable, block);
    }
  }
}

void Setup::plan_guids(PortId port, std::vector<Guid> guids) {
  guids.resize(subnet_.port(port).info.guid_cap);
  const std::vector<Guid>& now = subnet_.port(port).guids;
  for (std::uint32_t block = 0; block < blocks(guids.size(), kGuidsPerBlock); ++block) {
    bool differs = false;
    for (std::uint32_t i = block * kGuidsPerBlock;
         i < std::min<std::size_t>((block + 1) * kGuidsPerBlock, guids.size()); ++i) {
      differs = differs || (i != 0 && guids[i] != (i < now.size() ? now[i] : Guid{}));
    }
    if (differs) {
      plan(port, wire::SmpAttribute::GuidInfo, block);
    }
  }
  guids_[port] = std::move(guids);
}

}  // namespace weft::subnet
