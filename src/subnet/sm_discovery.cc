#include "subnet/sm_discovery.h"

#include <algorithm>
#include <span>

namespace weft::subnet {
namespace {

constexpr std::size_t kPKeysPerBlock = 32;
constexpr std::size_t kGuidsPerBlock = 8;
/// There are not enough LIDs for more nodes.
constexpr std::size_t kMaxNodes = kEndOfUnicast - 1;

[[nodiscard]] PortNumber port_number(std::size_t value) {
  return PortNumber{static_cast<std::uint8_t>(value)};
}

}  // namespace

Discovery::Discovery(std::uint64_t subnet_prefix, const Subnet* before) : before_(before) {
  subnet_.subnet_prefix = subnet_prefix;
  ask({}, wire::SmpAttribute::NodeInfo);
}

void Discovery::ask(PortId to, wire::SmpAttribute attribute, std::uint32_t modifier) {
  queue_.push_back({.to = to, .attribute = attribute, .modifier = modifier});
}

std::optional<SmpRequest> Discovery::next() {
  while (!queue_.empty()) {
    const SmpRequest request = queue_.front();
    queue_.pop_front();
    // The link was discovered from its other end meanwhile.
    if (request.egress != PortNumber{} &&
        subnet_.port({request.to.node, request.egress}).peer.node != kNoNode) {
      continue;
    }
    return request;
  }
  return std::nullopt;
}

DirectedRoute Discovery::route_of(const SmpRequest& request) const {
  return request.to.node == kNoNode ? DirectedRoute{} : subnet_.route_to(request.to);
}

void Discovery::take(const SmpRequest& request, const SmpAnswer& answer) {
  if (!answer.is_good()) {
    ++(answer.is_answered ? problems_.refused : problems_.unanswered);
    return;
  }
  switch (request.attribute) {
    case wire::SmpAttribute::NodeInfo:
      return take_node_info(request, answer);
    case wire::SmpAttribute::NodeDescription:
      subnet_.node(request.to.node).description = answer.as<wire::NodeDescription>();
      return;
    case wire::SmpAttribute::SwitchInfo:
      return take_switch_info(request, answer);
    case wire::SmpAttribute::PortInfo:
      return take_port_info(request, answer);
    case wire::SmpAttribute::PKeyTable:
      return take_pkeys(request, answer);
    case wire::SmpAttribute::GuidInfo:
      return take_guids(request, answer);
    default:
      return;
  }
}

bool Discovery::is_sensible(const wire::NodeInfo& info) const {
  const bool is_switch = info.node_type == wire::NodeType::Switch;
  return info.node_guid != Guid{} && info.port_guid != Guid{} && info.port_count != 0 &&
         info.port_count != 0xFF && info.local_port.value() <= info.port_count &&
         (is_switch || info.local_port != PortNumber{}) && subnet_.nodes().size() < kMaxNodes;
}

/// Finds or adds the node of a NodeInfo; none if it contradicts earlier information.
std::optional<NodeId> Discovery::enter(const wire::NodeInfo& info, const DirectedRoute& route) {
  const auto same_port = subnet_.find_port(info.port_guid);
  if (const auto known = subnet_.find_node(info.node_guid)) {
    const wire::NodeInfo& other = subnet_.node(*known).info;
    const bool is_same = other.node_type == info.node_type && other.port_count == info.port_count &&
                         (!same_port || same_port->node == *known);
    return is_same ? known : std::nullopt;
  }
  if (same_port) {
    return std::nullopt;
  }
  const NodeId node = subnet_.add_node(info);
  if (subnet_.node(node).is_switch()) {
    subnet_.node(node).route = route;
  }
  query_attributes(node);
  return node;
}

void Discovery::query_attributes(NodeId node) {
  const SubnetNode& record = subnet_.node(node);
  const PortId any{node, record.is_switch() ? PortNumber{} : record.info.local_port};
  const auto known = before_ == nullptr ? std::nullopt : before_->find_node(record.info.node_guid);
  if (known && before_->node(*known).description != wire::NodeDescription{}) {
    subnet_.node(node).description = before_->node(*known).description;
  } else {
    ask(any, wire::SmpAttribute::NodeDescription);
  }
  if (record.is_switch()) {
    ask(any, wire::SmpAttribute::SwitchInfo);
    for (std::uint32_t port = 0; port <= record.info.port_count; ++port) {
      ask(any, wire::SmpAttribute::PortInfo, port);
    }
  }
}

/// Adds an HCA port with the directed route that leads to it.
void Discovery::enter_port(PortId port, const wire::NodeInfo& info, const DirectedRoute& route) {
  if (subnet_.port(port).info.local_port != PortNumber{} || !subnet_.port(port).route.empty()) {
    return;
  }
  subnet_.set_port_guid(port, info.port_guid);
  subnet_.port(port).route = route;
  ask(port, wire::SmpAttribute::PortInfo, port.number.value());
}

void Discovery::take_node_info(const SmpRequest& request, const SmpAnswer& answer) {
  const auto info = answer.as<wire::NodeInfo>();
  if (!is_sensible(info)) {
    ++problems_.inconsistent;
    return;
  }
  DirectedRoute route = route_of(request);
  if (request.egress != PortNumber{}) {
    route.push_back(request.egress);
  }
  const auto node = enter(info, route);
  if (!node) {
    ++problems_.duplicate_guids;
    return;
  }
  const PortId port{*node, info.local_port};
  const bool is_switch = subnet_.node(*node).is_switch();
  if (request.to.node == kNoNode) {
    own_port_ = PortId{*node, is_switch ? PortNumber{} : info.local_port};
  } else {
    const PortId from{request.to.node, request.egress};
    const PortId peer = subnet_.port(port).peer;
    if (port.number == PortNumber{} || (peer.node != kNoNode && peer != from)) {
      ++problems_.duplicate_guids;  // duplicate GUIDs, or a port with two cables
      return;
    }
    subnet_.connect(from, port);
  }
  if (!is_switch) {
    enter_port(port, info, route);
  }
}

void Discovery::take_switch_info(const SmpRequest& request, const SmpAnswer& answer) {
  subnet_.node(request.to.node).switch_info = answer.as<wire::SwitchInfo>();
}

void Discovery::take_port_info(const SmpRequest& request, const SmpAnswer& answer) {
  const PortId port{request.to.node, port_number(request.modifier)};
  SubnetPort& record = subnet_.port(port);
  record.info = answer.as<wire::PortInfo>();
  record.info.local_port = port.number;
  const bool is_switch = subnet_.node(port.node).is_switch();
  const bool is_end_port = !is_switch || port.number == PortNumber{};
  const bool is_own = own_port_ == port;
  if (is_end_port) {
    if (record.info.capability_mask.has(wire::PortCapability::IsSm) && !is_own) {
      managers_.push_back(port);
    }
    read_or_reuse(port);
  }
  reuse_lanes(port);
  const bool has_cable = port.number != PortNumber{} && record.is_up();
  if (has_cable && record.peer.node == kNoNode && (is_switch || is_own)) {
    const PortId via{port.node, is_switch ? PortNumber{} : port.number};
    queue_.push_back({.to = via, .egress = port.number, .attribute = wire::SmpAttribute::NodeInfo});
  }
}

void Discovery::reuse_lanes(PortId port) {
  const Guid guid = subnet_.node(port.node).info.node_guid;
  const auto known = before_ == nullptr ? std::nullopt : before_->find_node(guid);
  if (known && port.number.value() < before_->node(*known).ports.size() &&
      subnet_.port(port).info.port_state >= wire::LinkState::Armed) {
    const SubnetPort& old = before_->port({*known, port.number});
    subnet_.port(port).sl_to_vl = old.sl_to_vl;
    subnet_.port(port).vl_arbitration = old.vl_arbitration;
  }
}

/// P_Keys and GUIDs; unchanged unless the node restarted.
void Discovery::read_or_reuse(PortId port) {
  SubnetPort& record = subnet_.port(port);
  const bool is_fresh = record.info.lid == Lid{} || record.info.port_state < wire::LinkState::Armed;
  const auto known = before_ == nullptr ? std::nullopt : before_->find_port(record.guid);
  if (known && !is_fresh) {
    const SubnetPort& old = before_->port(*known);
    record.pkeys = old.pkeys;
    record.guids = old.guids;
    return;
  }
  if (subnet_.node(port.node).info.partition_cap != 0) {
    ask(port, wire::SmpAttribute::PKeyTable);
  }
  if (record.info.guid_cap != 0) {
    ask(port, wire::SmpAttribute::GuidInfo);
  }
}

/// Reads the table as far as it is filled: another block if the last entry of this one is used.
void Discovery::take_pkeys(const SmpRequest& request, const SmpAnswer& answer) {
  const auto table = answer.as<wire::PKeyTable>();
  std::vector<PKey>& pkeys = subnet_.port(request.to).pkeys;
  pkeys.insert(pkeys.end(), table.pkeys.begin(), table.pkeys.end());
  if (table.pkeys.back() != PKey{} &&
      pkeys.size() + kPKeysPerBlock <= subnet_.node(request.to.node).info.partition_cap) {
    ask(request.to, wire::SmpAttribute::PKeyTable, request.modifier + 1);
  }
}

/// The same, but entries have gaps where virtual functions are gone: another block if this one has
/// an entry beside the port's own.
void Discovery::take_guids(const SmpRequest& request, const SmpAnswer& answer) {
  const auto table = answer.as<wire::GuidInfo>();
  SubnetPort& port = subnet_.port(request.to);
  const auto others = std::span{table.guids}.subspan(port.guids.empty() ? 1 : 0);
  port.guids.insert(port.guids.end(), table.guids.begin(), table.guids.end());
  if (std::ranges::any_of(others, [](Guid guid) { return guid != Guid{}; }) &&
      port.guids.size() + kGuidsPerBlock <= port.info.guid_cap) {
    ask(request.to, wire::SmpAttribute::GuidInfo, request.modifier + 1);
  }
}

}  // namespace weft::subnet
