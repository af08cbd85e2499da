#include "node/fabric.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "base/assert.h"
#include "node/function_directory.h"
#include "node/host_services.h"
#include "node/subnet_services.h"

namespace weft::node {
namespace {

constexpr std::uint32_t kEndOfUnicast = 0xC000;  // IBTA vol 1 §4.1.3

/// A connected component of the fabric.
struct Component {
  fabric::PortIndex manager{fabric::kNoPort};  // location of its subnet manager
  std::uint32_t lids{};                        // upper bound of LIDs required
};

void visit_component(const fabric::TablesBuilder& tables, fabric::PortIndex start,
                     std::vector<bool>& seen, Component& component) {
  std::vector<fabric::PortIndex> found{start};
  seen[start.value()] = true;
  const auto visit = [&](fabric::PortIndex port) {
    if (!seen[port.value()]) {
      seen[port.value()] = true;
      found.push_back(port);
    }
  };
  while (!found.empty()) {
    const fabric::PortRecord& port = tables.port(found.back());
    found.pop_back();
    if (port.peer != fabric::kNoPort) {
      visit(port.peer);
    }
    if (!port.is_switch_port()) {
      component.lids += port.lmc == 0 ? 1U : 2U << port.lmc;  // including alignment to LMC blocks
      continue;
    }
    component.lids += port.number == PortNumber{} ? 1U : 0U;
    const fabric::NodeRecord& node = tables.node(port.node);
    for (std::uint32_t i = 0; i < node.port_count; ++i) {
      visit(fabric::PortIndex{node.first_port.value() + i});
    }
  }
}

/// InfiniBand components with HCAs, in order of their first ports, except those that contain a port
/// in `known`. `manager` selects the location in its component.
[[nodiscard]] std::vector<Component> find_components(const fabric::TablesBuilder& tables,
                                                     std::span<const fabric::PortIndex> known,
                                                     std::optional<fabric::PortIndex> manager) {
  std::vector<Component> components;
  std::vector<bool> seen(tables.ports().size());
  for (const fabric::PortIndex port : known) {
    Component component;
    visit_component(tables, port, seen, component);
  }
  for (std::uint32_t i = 0; i < tables.ports().size(); ++i) {
    const fabric::PortRecord& port = tables.ports()[i];
    if (!seen[i] && !port.is_switch_port() && port.peer != fabric::kNoPort &&
        port.link_type == fabric::LinkType::InfiniBand) {
      const bool had_manager = manager && seen[manager->value()];
      Component& component = components.emplace_back(fabric::PortIndex{i});
      visit_component(tables, fabric::PortIndex{i}, seen, component);
      if (manager && seen[manager->value()] && !had_manager) {
        component.manager = *manager;
      }
    }
  }
  return components;
}

}  // namespace

Fabric::Fabric(const fabric::Topology& topology, const FabricOptions& options)
    : topology_(topology),
      has_subnet_manager_(options.has_subnet_manager),
      sm_priority_(options.sm_priority),
      builder_(topology_),
      max_ports_(builder_.ports().size() + kReservedPorts),
      management_(builder_, {.time_scale = topology_.time_scale,
                             .counters = options.counters,
                             .faults = options.faults}),
      joins_(builder_, management_),
      hosts_(std::make_unique<HostServicesTable>(builder_, management_, topology_, options.seed)),
      faults_(builder_,
              [this](fabric::PortIndex link, bool, Instant now) { update_link(link, now); }) {
  joins_.set_other_owner([this](fabric::PortIndex port, const Gid& mgid) {
    return hosts_->holds_membership(port, mgid);
  });
  hosts_->set_other_owner(
      [this](fabric::PortIndex port, const Gid& mgid) { return joins_.holds(port, mgid); });
  SharedPorts& shared = management_.shared_ports();
  shared.set_directories([this, &shared](fabric::PortIndex physical) {
    return std::make_unique<FunctionDirectory>(builder_, shared, *hosts_, physical);
  });
}

Fabric::~Fabric() = default;

Result<std::unique_ptr<Fabric>> Fabric::create(const fabric::Topology& topology, Instant now,
                                               const FabricOptions& options) {
  std::unique_ptr<Fabric> fabric{
      new Fabric{topology, options}
  };
  if (auto added = fabric->add_functions_of_topology(now); !added) {
    return std::unexpected(added.error());
  }
  if (options.has_subnet_manager) {
    if (auto up = fabric->bring_up(options, now); !up) {
      return std::unexpected(up.error());
    }
  }
  return fabric;
}

/// The requested location of the subnet manager; none if not requested.
Result<std::optional<fabric::PortIndex>> Fabric::find_manager_port(std::string_view name) const {
  if (name.empty()) {
    return std::nullopt;
  }
  const auto ports = find_ports(name);
  if (!ports) {
    return std::unexpected(ports.error());
  }
  const fabric::PortRecord& first = builder_.port(ports->front());
  if (first.is_switch_port() || first.peer == fabric::kNoPort || first.is_omni_path()) {
    return fail(
        ErrorCode::InvalidArgument,
        "the subnet manager cannot run at {}; choose a cabled InfiniBand port of a host, as "
        "h1:1",
        name);
  }
  return ports->front();
}

/// Runs the first sweep. No time passes: SMAs answer at once, and links take no time.
Result<void> Fabric::bring_up(const FabricOptions& wanted, Instant now) {
  const auto wanted_port = find_manager_port(wanted.sm_port);
  if (!wanted_port) {
    return std::unexpected(wanted_port.error());
  }
  if (auto started = start_managers(*wanted_port, now); !started) {
    return started;
  }
  // The limit is many times what a sweep requires; anything that takes longer completes later, in
  // regular runs.
  const std::size_t max_turns = 1'000 + builder_.ports().size();
  management().set_takes_time(false);
  for (std::size_t turn = 0; turn < max_turns && run_management(now); ++turn) {
  }
  management().set_takes_time(true);
  return {};
}

/// Starts a subnet manager in each connected component without one, at its first HCA port or at the
/// requested one. The initial components use disjoint LIDs, so that counters and captures can
/// identify a port by its LID.
Result<void> Fabric::start_managers(std::optional<fabric::PortIndex> wanted, Instant now) {
  subnet::SubnetManagerOptions options;
  options.priority = sm_priority_;
  options.subnet_prefix = topology_.subnet_prefix;
  for (const fabric::PortRecord& port : builder_.ports()) {
    if (port.lmc != 0) {
      options.lmc_of_port[port.guid] = port.lmc;
    }
    if (port.lid != Lid{} && !port.is_omni_path()) {
      options.first_lid =
          std::max(options.first_lid, Lid{port.lid.value() + (std::uint32_t{1} << port.lmc)});
    }
  }
  std::vector<fabric::PortIndex> managed;
  std::ranges::transform(managers_, std::back_inserter(managed), &Manager::port);
  for (const Component& component : find_components(builder_, managed, wanted)) {
    if (options.first_lid.value() + component.lids > kEndOfUnicast) {
      return fail(ErrorCode::OutOfMemory,
                  "the fabric has more ports than the {} unicast LIDs of a subnet; lower LMCs or "
                  "fewer nodes would fit",
                  kEndOfUnicast - 1);
    }
    auto services = std::make_unique<SubnetServices>(management_.port(component.manager), options);
    if (auto started = services->start(now); !started) {
      return started;
    }
    management_.agents().set_is_sm(component.manager, true, now);
    managers_.push_back({.port = component.manager, .services = std::move(services)});
    options.first_lid = Lid{options.first_lid.value() + component.lids};
  }
  return {};
}

bool Fabric::run_management(Instant now) {
  for (Manager& manager : managers_) {
    report_own_link(manager, now);
    if (manager.services->deadline() <= now) {
      manager.services->handle_timeout(now);
      management_.wake(manager.port);
    }
  }
  hosts_->run(now);
  const bool has_more = management_.run(now);
  return joins_.refresh(now) || has_more || hosts_->deadline() <= now ||
         std::ranges::any_of(managers_, [now](const Manager& manager) {
           return manager.services->deadline() <= now;
         });
}

/// A switch notifies the SM of link changes by trap 128; an HCA does not, so the SM's host reports
/// changes of its own link.
void Fabric::report_own_link(Manager& manager, Instant now) {
  const bool is_down = builder_.port(manager.port).state == fabric::PortState::Down;
  if (std::exchange(manager.link_is_down, is_down) && !is_down) {
    manager.services->manager().request_sweep(now);
    management_.wake(manager.port);
  }
}

std::vector<Duration> Fabric::take_reroutes() {
  std::vector<Duration> taken;
  for (Manager& manager : managers_) {
    const subnet::SubnetManagerCounters& counters = manager.services->manager().counters();
    if (std::exchange(manager.reroutes, counters.reroutes) != counters.reroutes) {
      taken.push_back(counters.last_reroute);
    }
  }
  return taken;
}

Instant Fabric::management_deadline() const {
  Instant deadline = std::min(management_.deadline(), hosts_->deadline());
  for (const Manager& manager : managers_) {
    deadline = std::min(deadline, manager.services->deadline());
  }
  return deadline;
}

Result<ProcessId> Fabric::attach(std::string_view host, Instant now) {
  const auto found = builder_.find_node(host);
  if (!found || builder_.node(*found).kind != fabric::NodeKind::Host) {
    return fail(ErrorCode::NotFound, "no host {}: this fabric has {} to {} (WEFT_HOST chooses)",
                host, topology_.hosts.front().name, topology_.hosts.back().name);
  }
  const fabric::NodeIndex node = *found;
  const auto slot = take_slot(node, now);
  if (!slot) {
    return std::unexpected(slot.error());
  }
  const ProcessId process{.host = node, .slot = *slot};
  processes_.emplace(process, std::set<ProcessId>{});
  return process;
}

DetachResult Fabric::detach(ProcessId process, Instant now) {
  const auto found = processes_.find(process);
  WEFT_ASSERT(found != processes_.end(), "the process is attached");
  DetachResult departure;
  for (const ProcessId& peer : found->second) {
    departure.peers.push_back(peer);
    processes_.at(peer).erase(process);
  }
  processes_.erase(found);
  slots_.at(process.host).release(process.slot, now);
  for (auto& [mlid, memberships] : groups_) {
    const std::size_t left = std::erase_if(memberships, [&](const auto& entry) {
      if (entry.first.process != process) {
        return false;
      }
      end_membership(entry.first, mlid, now);
      return true;
    });
    if (left != 0) {
      departure.groups.push_back(mlid);
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

Result<void> Fabric::note_bad_keys(ProcessId process, const BadKeyReport& report, Instant now) {
  if (report.port.value() >= builder_.ports().size() ||
      builder_.port(report.port).node != process.host ||
      builder_.port(report.port).is_switch_port()) {
    return fail(ErrorCode::InvalidArgument, "no port of this host");
  }
  agents::FabricAgents& agents = management().agents();
  agents::BadKey bad = report.last;  // a process may say what fits into no packet
  bad.source = Lid{bad.source.value() & 0xFFFF};
  bad.destination = Lid{bad.destination.value() & 0xFFFF};
  bad.sl = ServiceLevel{static_cast<std::uint8_t>(bad.sl.value() & 0xF)};
  if (report.is_qkey) {
    agents.note_bad_qkeys(report.port, bad, report.count, now);
  } else {
    agents.note_bad_pkeys(report.port, bad, report.count, now);
  }
  return {};
}

Result<bool> Fabric::join_group(ProcessId process, fabric::PortIndex port, const Gid& mgid,
                                Lid mlid, Instant now) {
  if (auto checked = check_group(process, port, mlid); !checked) {
    return std::unexpected(checked.error());
  }
  const bool is_new = ++groups_[mlid][{process, port, mgid}] == 1;
  if (is_new && mlid != fabric::kBroadcastMlid) {  // all ports are members of the broadcast group
    joins_.join(port, mgid, mlid, now);
  }
  return is_new;
}

Result<bool> Fabric::leave_group(ProcessId process, fabric::PortIndex port, const Gid& mgid,
                                 Lid mlid, Instant now) {
  const auto group = groups_.find(mlid);
  const auto membership = group == groups_.end() ? decltype(group->second.begin()){}
                                                 : group->second.find({process, port, mgid});
  if (group == groups_.end() || membership == group->second.end()) {
    return fail(ErrorCode::NotFound, "not a member of group {}", mlid.value());
  }
  if (--membership->second != 0) {
    return false;
  }
  end_membership(membership->first, mlid, now);
  group->second.erase(membership);
  if (group->second.empty()) {
    groups_.erase(group);
  }
  return true;
}

void Fabric::end_membership(const Membership& membership, Lid mlid, Instant now) {
  if (mlid != fabric::kBroadcastMlid) {
    joins_.leave(membership.port, membership.mgid, now);
  }
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

/// A link is up unless its cable is unplugged or a fault rule takes it down.
void Fabric::update_link(fabric::PortIndex link, Instant now) {
  const bool is_plugged = !unplugged_.contains(link) && !faults_.takes_down(link);
  management_.agents().set_plugged(link, is_plugged, now);
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
  return management_.configure(port, settings, now);
}

void Fabric::tap(fabric::PortIndex port) {
  ++taps_[port];
  builder_.set_tapped(port, true);
}

void Fabric::untap(fabric::PortIndex port) {
  const auto found = taps_.find(port);
  WEFT_ASSERT(found != taps_.end(), "a tap is taken off as often as it was put on");
  if (--found->second == 0) {
    taps_.erase(found);
    builder_.set_tapped(port, false);
  }
}

}  // namespace weft::node
