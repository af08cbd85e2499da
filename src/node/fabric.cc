#include "node/fabric.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace weft::node {

Fabric::Fabric(const fabric::Topology& topology, const FabricOptions& options)
    : topology_(topology),
      builder_(topology_),
      management_(builder_, {.time_scale = topology_.time_scale, .counters = options.counters}),
      has_subnet_manager_(options.has_subnet_manager),
      subnet_manager_(builder_),
      faults_(builder_,
              [this](fabric::PortIndex link, bool, Instant now) { update_link(link, now); }) {}

Result<std::unique_ptr<Fabric>> Fabric::create(const fabric::Topology& topology,
                                               const FabricOptions& options) {
  std::unique_ptr<Fabric> fabric{
      new Fabric{topology, options}
  };
  if (!options.has_subnet_manager) {
    return fabric;
  }
  if (auto up = fabric->subnet_manager_.bring_up(); !up) {
    return std::unexpected(up.error());
  }
  return fabric;
}

Result<ProcessId> Fabric::attach(std::string_view host, Instant now) {
  // Hosts come first among the nodes, in their order.
  const auto found = std::ranges::find(topology_.hosts, host, &fabric::HostDescription::name);
  if (found == topology_.hosts.end()) {
    return fail(ErrorCode::NotFound, "no host {}: this fabric has {} to {} (WEFT_HOST chooses)",
                host, topology_.hosts.front().name, topology_.hosts.back().name);
  }
  const fabric::NodeIndex node{
      static_cast<std::uint32_t>(std::distance(topology_.hosts.begin(), found))};
  const auto slot = slots_[node].take(now);
  if (!slot) {
    return std::unexpected(slot.error());
  }
  const ProcessId process{.host = node, .slot = *slot};
  processes_.emplace(process, std::set<ProcessId>{});
  return process;
}

Departure Fabric::detach(ProcessId process, Instant now) {
  const auto found = processes_.find(process);
  assert(found != processes_.end());
  Departure departure;
  for (const ProcessId& peer : found->second) {
    departure.peers.push_back(peer);
    processes_.at(peer).erase(process);
  }
  processes_.erase(found);
  slots_.at(process.host).release(process.slot, now);
  for (auto& [mlid, memberships] : groups_) {
    std::set<fabric::PortIndex> ports;
    std::erase_if(memberships, [&](const auto& entry) {
      if (entry.first.process == process) {
        ports.insert(entry.first.port);
        return true;
      }
      return false;
    });
    if (!ports.empty()) {
      departure.groups.push_back(mlid);
    }
    for (const fabric::PortIndex port : ports) {
      const bool others = std::ranges::any_of(
          memberships, [&](const auto& entry) { return entry.first.port == port; });
      if (!others && mlid != fabric::kBroadcastMlid) {
        static_cast<void>(subnet_manager_.leave(mlid, port));
      }
    }
  }
  std::erase_if(groups_, [](const auto& group) { return group.second.empty(); });
  return departure;
}

Result<bool> Fabric::join_lane(ProcessId a, ProcessId b) {
  if (!has(a) || !has(b) || a == b) {
    return fail(ErrorCode::NotFound, "no such process");
  }
  const bool is_new = processes_.at(a).insert(b).second;
  processes_.at(b).insert(a);
  return is_new;
}

Result<void> Fabric::check_group(ProcessId process, fabric::PortIndex port, Lid mlid) const {
  if (!mlid.is_multicast() || port.value() >= builder_.ports().size() ||
      builder_.port(port).node != process.host || builder_.port(port).is_switch_port()) {
    return fail(ErrorCode::InvalidArgument, "no multicast group {} on a port of this host",
                mlid.value());
  }
  return {};
}

Result<bool> Fabric::join_group(ProcessId process, fabric::PortIndex port, Lid mlid) {
  if (auto checked = check_group(process, port, mlid); !checked) {
    return std::unexpected(checked.error());
  }
  auto& memberships = groups_[mlid];
  const bool is_new = ++memberships[{process, port}] == 1;
  if (is_new && mlid != fabric::kBroadcastMlid) {
    if (auto joined = subnet_manager_.join(mlid, port); !joined) {
      memberships.erase({process, port});
      return std::unexpected(joined.error());
    }
  }
  return is_new;
}

Result<bool> Fabric::leave_group(ProcessId process, fabric::PortIndex port, Lid mlid) {
  const auto group = groups_.find(mlid);
  const auto membership = group == groups_.end() ? decltype(group->second.begin()){}
                                                 : group->second.find({process, port});
  if (group == groups_.end() || membership == group->second.end()) {
    return fail(ErrorCode::NotFound, "not a member of group {}", mlid.value());
  }
  if (--membership->second != 0) {
    return false;
  }
  group->second.erase(membership);
  const bool others = std::ranges::any_of(
      group->second, [&](const auto& entry) { return entry.first.port == port; });
  if (!others && mlid != fabric::kBroadcastMlid) {
    static_cast<void>(subnet_manager_.leave(mlid, port));
  }
  if (group->second.empty()) {
    groups_.erase(group);
  }
  return true;
}

std::vector<ProcessId> Fabric::members(Lid mlid) const {
  std::set<ProcessId> members;
  if (const auto group = groups_.find(mlid); group != groups_.end()) {
    for (const auto& [membership, count] : group->second) {
      members.insert(membership.process);
    }
  }
  return {members.begin(), members.end()};
}

std::vector<Lid> Fabric::groups() const {
  std::vector<Lid> mlids;
  for (const auto& [mlid, memberships] : groups_) {
    mlids.push_back(mlid);
  }
  return mlids;
}

Result<std::vector<fabric::PortIndex>> Fabric::find_ports(std::string_view name) const {
  const auto ends = fabric::cabled_ports(topology_, name);
  if (!ends) {
    return std::unexpected(ends.error());
  }
  std::vector<fabric::PortIndex> found;
  for (const fabric::EndPoint& end : *ends) {
    found.push_back(builder_.port_of(end));
  }
  return found;
}

Result<std::uint32_t> Fabric::add_fault(const fabric::FaultDescription& fault, Instant now) {
  std::vector<fabric::PortIndex> ports;
  if (!fault.port.empty()) {
    auto named = find_ports(fault.port);
    if (!named) {
      return std::unexpected(named.error());
    }
    ports = std::move(*named);
  }
  return faults_.add(fault, ports, now);
}

/// A link is up unless somebody pulled its cable or a fault takes it down.
void Fabric::update_link(fabric::PortIndex link, Instant now) {
  const bool is_plugged = !unplugged_.contains(link) && !faults_.takes_down(link);
  management_.agents().set_plugged(link, is_plugged, now);
  activate(link);
}

/// What the stand-in does for a link that was trained again.
void Fabric::activate(fabric::PortIndex link) {
  const fabric::PortIndex peer = builder_.port(link).peer;
  if (has_subnet_manager_ && peer != fabric::kNoPort &&
      builder_.port(link).state == fabric::PortState::Initialize &&
      builder_.port(peer).state == fabric::PortState::Initialize) {
    builder_.set_link_state(link, fabric::PortState::Active);
  }
}

Result<void> Fabric::change_port(fabric::PortIndex port, const PortChange& change, Instant now) {
  const fabric::PortIndex peer = builder_.port(port).peer;
  if (peer == fabric::kNoPort) {
    return fail(ErrorCode::InvalidArgument, "the port has no cable");
  }
  const fabric::PortIndex link = std::min(port, peer);
  if (change.is_plugged) {
    if (*change.is_plugged) {
      unplugged_.erase(link);
    } else {
      unplugged_.insert(link);
    }
    update_link(link, now);
  }
  agents::PortSettings settings = change.settings;
  const wire::PhysicalState physical = management_.agents().port_agent(port).physical;
  if (change.enables &&
      (physical == wire::PhysicalState::Disabled || physical == wire::PhysicalState::Sleep)) {
    settings.physical = wire::PhysicalState::Polling;
  }
  if (auto set = management_.configure(port, settings, now); !set) {
    return set;
  }
  activate(link);
  if (has_subnet_manager_) {
    subnet_manager_.reroute();
  }
  return {};
}

void Fabric::tap(fabric::PortIndex port) {
  ++taps_[port];
  builder_.set_tapped(port, true);
}

void Fabric::untap(fabric::PortIndex port) {
  const auto found = taps_.find(port);
  assert(found != taps_.end());
  if (--found->second == 0) {
    taps_.erase(found);
    builder_.set_tapped(port, false);
  }
}

}  // namespace weft::node
