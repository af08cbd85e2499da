// SubnetManager: from the discovered to the configured subnet.

#include <algorithm>
#include <array>
#include <utility>

#include "subnet/rate.h"
#include "subnet/subnet_manager.h"

namespace weft::subnet {
namespace {

/// Number of data VLs that all ports between nodes support.
std::uint8_t common_vls(const Subnet& subnet, std::uint8_t limit) {
  constexpr std::array<std::uint8_t, 6> kLanes = {1, 1, 2, 4, 8, 15};  // by VLCap
  std::uint8_t least = limit;
  for (const SubnetNode& node : subnet.nodes()) {
    for (const SubnetPort& port : node.ports) {
      if (port.peer.node != kNoNode && port.is_up()) {
        least = std::min(least, kLanes[std::min<std::size_t>(port.info.vl_cap, 5)]);
      }
    }
  }
  return least;
}

}  // namespace

/// Replaces the model by the discovered subnet. Tables written earlier remain known unless the
/// switch has restarted.
void SubnetManager::adopt(Subnet found) {
  setup_.reset();
  found.generation = subnet_.generation;
  const bool stays_master = state_ == wire::SmState::Master && !takes_over_;
  for (std::uint32_t i = 0; i < found.nodes().size(); ++i) {
    SubnetNode& node = found.nodes()[i];
    const auto known = subnet_.find_node(node.info.node_guid);
    if (!stays_master || !known || !node.switch_info || !subnet_.node(*known).switch_info ||
        node.ports[0].info.lid == Lid{} ||
        node.switch_info->linear_fdb_top != subnet_.node(*known).switch_info->linear_fdb_top) {
      continue;
    }
    node.forwarding = std::move(subnet_.node(*known).forwarding);
    node.multicast = std::move(subnet_.node(*known).multicast);
  }
  subnet_ = std::move(found);
  own_port_ = *discovery_->own_port();
  own_guid_ = subnet_.port(own_port_).guid;
  setup_.emplace(subnet_, options_, graph_, routing_, groups_);
}

/// Assigns LIDs, computes routes, and starts writing.
void SubnetManager::set_up(Instant now) {
  warning_.clear();
  if (const auto assigned = assign_lids(subnet_, options_, lid_memory_); !assigned) {
    warning_ = assigned.error().reason;
  }
  ++subnet_.generation;
  graph_ = make_routing_graph(subnet_);
  choose_routing();
  std::set<Guid> new_ports;
  for (const SubnetNode& node : subnet_.nodes()) {
    for (const SubnetPort& port : node.ports) {
      if (port.guid != Guid{} && (takes_over_ || !in_service_.contains(port.guid))) {
        new_ports.insert(port.guid);
      }
    }
  }
  setup_->set_reregister(std::move(new_ports));
  setup_->set_master(subnet_.port(own_port_).info.lid);
  update_wanted_ = !guids_to_write_.empty();
  work_ = Work::Tables;
  const Setup::Known known = known_tables();
  setup_->plan_tables(known);
  for (std::uint32_t i = 0; i < subnet_.nodes().size(); ++i) {
    const SubnetNode& node = subnet_.nodes()[i];
    if (node.is_switch() && !(known.forwarding[i] && known.multicast[i])) {
      unconfirmed_.insert(node.info.node_guid);
    }
  }
  uncertain_.clear();
  pump(now);
}

void SubnetManager::choose_routing() {
  for (const RoutingEngine engine : options_.engines) {
    Result<Routing> routing;
    switch (engine) {
      case RoutingEngine::MinHop:
        routing = route_min_hop(graph_);
        break;
      case RoutingEngine::UpDown:
        routing = route_up_down(graph_);
        break;
      case RoutingEngine::FatTree:
        routing = route_fat_tree(graph_);
        break;
      case RoutingEngine::DeadlockFree:
        routing = route_deadlock_free(graph_, common_vls(subnet_, options_.vl_limit));
        break;
    }
    if (routing) {
      routing_ = std::move(*routing);
      return;
    }
    warning_ += (warning_.empty() ? "" : "; ") + routing.error().reason;
  }
  routing_ = route_up_down(graph_);  // always possible, and deadlock-free with one VL
}

Setup::Known SubnetManager::known_tables() const {
  Setup::Known known;
  for (const SubnetNode& node : subnet_.nodes()) {
    const bool is_certain = !uncertain_.contains(node.info.node_guid);
    // A switch with LinearFDBTop 0 has restarted: its multicast tables are empty (§14.2.5.12).
    const bool is_fresh = node.switch_info && node.switch_info->linear_fdb_top == 0;
    known.forwarding.push_back(is_certain && !node.forwarding.empty());
    known.multicast.push_back(is_certain && (!node.forwarding.empty() || is_fresh));
  }
  return known;
}

std::set<Guid> SubnetManager::ports_in_service() const {
  std::set<Guid> ports;
  for (const SubnetNode& node : subnet_.nodes()) {
    for (const SubnetPort& port : node.ports) {
      if (port.guid != Guid{} && port.info.lid != Lid{} && port.is_active()) {
        ports.insert(port.guid);
      }
    }
  }
  return ports;
}

/// Reports ports that appeared or disappeared since the last report.
void SubnetManager::report_changes(Instant now) {
  std::set<Guid> before = std::exchange(in_service_, ports_in_service());
  if (observer_ == nullptr) {
    return;
  }
  SubnetObserver::Change change;
  const auto add_missing = [&](const std::set<Guid>& from, const std::set<Guid>& in,
                               std::vector<Gid>& to) {
    for (const Guid guid : from) {
      if (!in.contains(guid)) {
        to.emplace_back(subnet_.subnet_prefix, guid);
      }
    }
  };
  add_missing(in_service_, before, change.appeared);
  add_missing(before, in_service_, change.disappeared);
  observer_->subnet_changed(change, now);
}

std::optional<PathFacts> SubnetManager::path(Lid source, Lid destination) const {
  const auto from = subnet_.find_lid(source);
  const auto to = subnet_.find_lid(destination);
  if (!from || !to) {
    return std::nullopt;
  }
  PathFacts facts{
      .source = *from, .destination = *to, .packet_life_time = options_.packet_life_time};
  const wire::PortInfo* narrowest = nullptr;
  const auto cross = [&](PortId egress) {
    const SubnetPort& port = subnet_.port(egress);
    if (port.peer.node == kNoNode || !port.is_up()) {
      return PortId{};
    }
    facts.steps.push_back({egress, true});
    facts.steps.push_back({port.peer, false});
    facts.mtu = std::min(facts.mtu, port.info.neighbor_mtu);
    if (narrowest == nullptr ||
        rate_hundreds_of_mbps(rate_of(port.info)) < rate_hundreds_of_mbps(rate_of(*narrowest))) {
      narrowest = &port.info;
    }
    return port.peer;
  };
  PortId at = *from;
  if (!subnet_.node(at.node).is_switch() && at != *to) {
    at = cross(at);
  }
  if (at.node != kNoNode && subnet_.node(at.node).is_switch()) {
    facts.sl = routing_.sl_of(graph_.position_of[at.node.value()], destination);
  }
  for (std::size_t hops = 0; at.node != kNoNode && subnet_.node(at.node).is_switch(); ++hops) {
    const PortNumber out = subnet_.node(at.node).forward(destination);
    if (hops > subnet_.nodes().size() || out.value() >= subnet_.node(at.node).ports.size()) {
      return std::nullopt;
    }
    at = out == PortNumber{} ? PortId{at.node, out} : cross({at.node, out});
    if (out == PortNumber{}) {
      break;
    }
  }
  if (at != *to) {
    return std::nullopt;
  }
  const wire::PortInfo& own = subnet_.port(*from).info;
  facts.rate = rate_of(narrowest == nullptr ? own : *narrowest);
  facts.mtu = narrowest == nullptr ? own.neighbor_mtu : facts.mtu;
  return facts;
}

std::uint32_t SubnetManager::multicast_capacity() const {
  std::uint32_t least = kPermissiveLid.value() - kFirstMulticastLid.value();
  for (const SubnetNode& node : subnet_.nodes()) {
    if (node.switch_info && node.switch_info->multicast_fdb_cap != 0) {
      least = std::min<std::uint32_t>(least, node.switch_info->multicast_fdb_cap);
    }
  }
  return least;
}

Result<void> SubnetManager::set_multicast_members(Lid mlid,
                                                  std::span<const MulticastMember> members,
                                                  Instant now) {
  if (mlid < kFirstMulticastLid ||
      mlid.value() - kFirstMulticastLid.value() >= multicast_capacity()) {
    return fail(ErrorCode::InvalidArgument,
                "MLID {:#x} is not in {:#x}..{:#x}, which all switches have", mlid.value(),
                kFirstMulticastLid.value(), kFirstMulticastLid.value() + multicast_capacity() - 1);
  }
  std::map<Guid, MulticastRole> group;
  for (const MulticastMember& member : members) {
    group[subnet_.port(member.port).guid] = member.role;
  }
  if (group.empty()) {
    groups_.erase(mlid);
  } else {
    groups_[mlid] = std::move(group);
  }
  update_wanted_ = true;
  if (work_ == Work::Idle) {
    rest(now);
  }
  return {};
}

Result<void> SubnetManager::set_guids(PortId port, std::vector<Guid> guids, Instant now) {
  const SubnetPort& record = subnet_.port(port);
  if (guids.size() > record.info.guid_cap) {
    return fail(ErrorCode::InvalidArgument, "{} GUIDs for a port that holds {}", guids.size(),
                record.info.guid_cap);
  }
  guids_to_write_[record.guid] = std::move(guids);
  update_wanted_ = true;
  if (work_ == Work::Idle) {
    rest(now);
  }
  return {};
}

std::vector<Guid> SubnetManager::guids_of(PortId port) const {
  const SubnetPort& record = subnet_.port(port);
  for (const auto* const asked : {&guids_to_write_, &guids_under_way_}) {
    if (const auto found = asked->find(record.guid); found != asked->end()) {
      return found->second;
    }
  }
  return record.guids;
}

}  // namespace weft::subnet
