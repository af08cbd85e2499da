#include "node/host_services.h"

#include <algorithm>
#include <string>
#include <variant>

#include "base/assert.h"
#include "wire/ipoib/message.h"
#include "wire/mad/component_mask.h"
#include "wire/mad/mc_member_record.h"

namespace weft::node {

using fabric::NodeIndex;
using fabric::PortIndex;
using fabric::PortRecord;

namespace {

[[nodiscard]] sa::LocalPort local_port_of(const fabric::TablesBuilder& tables, PortIndex index) {
  const PortRecord& record = tables.port(index);
  return {{fabric::attributes_of(record, tables.gids(index), tables.pkeys(index))},
          record.reregistrations};
}

/// The partition of the port's interface: that of the first P_Key, as for ib0.
[[nodiscard]] PKey interface_pkey(const sa::LocalPort& port) {
  return port.pkeys.empty() ? PKey{} : port.pkeys.front();
}

}  // namespace

HostServices::HostServices(const fabric::TablesBuilder& tables, ManagementPlane& plane,
                           const fabric::Topology& topology, const HostPosition& place,
                           std::function<void()> wake, Instant now)
    : tables_(tables),
      plane_(plane),
      topology_(topology),
      place_(place),
      wake_(wake),
      resolver_({}, wake),
      connections_(resolver_, place.seed) {
  const fabric::NodeRecord& node = tables.node(place.node);
  for (std::uint32_t k = 0; k < node.port_count; ++k) {
    const PortIndex index{node.first_port.value() + k};
    mad::ManagementInterface& gsi = plane.port(index).gsi();
    ports_.push_back({.index = index,
                      .port_of_host = k,
                      .pkey = {},
                      .gsi = &gsi,
                      .snooper = gsi.add_snooper([wake](auto&&...) { wake(); }),
                      .sa = std::make_unique<sa::SaClient>(gsi, sa::SaClientLimits{}, wake)});
    ports_.back().sa->watch_gids();
  }
  static_cast<void>(update_ports(now));
}

/// Interfaces leave their groups through the SA clients, so they are stopped first.
HostServices::~HostServices() {
  for (const Port& port : ports_) {
    port.gsi->remove_snooper(port.snooper);
    resolver_.remove_interface({.port = key_of(port.index), .pkey = port.pkey}, Instant{});
  }
}

void HostServices::use_local_service(std::unique_ptr<sa::LocalServiceLink> link) {
  for (const Port& port : ports_) {
    port.sa->set_path_source(nullptr, {});
  }
  resolver_.set_address_source(nullptr);
  local_service_.reset();  // before the link that it uses
  local_service_link_ = std::move(link);
  local_service_ =
      std::make_unique<sa::LocalService>(*local_service_link_, sa::LocalServiceOptions{}, wake_);
  for (const Port& port : ports_) {
    const PortRecord& record = tables_.port(port.index);
    const fabric::HcaRecord& hca = tables_.hcas()[record.hca.value()];
    port.sa->set_path_source(local_service_.get(), {.device = std::string{tables_.name(hca)},
                                                    .number = record.number.value()});
  }
  resolver_.set_address_source(local_service_.get());
}

std::vector<PortIndex> HostServices::ports() const {
  std::vector<PortIndex> all;
  std::ranges::transform(ports_, std::back_inserter(all), &Port::index);
  return all;
}

HostServices::Port& HostServices::at(PortIndex port) {
  const auto found = std::ranges::find(ports_, port, &Port::index);
  WEFT_ASSERT(found != ports_.end(), "the port is one of this host's");
  return *found;
}

bool HostServices::update_ports(Instant now) {
  bool has_changes = false;
  for (Port& port : ports_) {
    const sa::LocalPort local = local_port_of(tables_, port.index);
    if (local == port.sa->port()) {
      continue;
    }
    has_changes = true;
    const Lid before = port.sa->port().lid;
    port.sa->set_port(local, now);
    set_up_interface(port, now);
    resolver_.port_changed(key_of(port.index), now);
    if (before != Lid{} && local.lid != Lid{} && before != local.lid) {
      resolver_.announce(key_of(port.index), now);
    }
    const PortRecord& record = tables_.port(port.index);
    const fabric::HcaRecord& hca = tables_.hcas()[record.hca.value()];
    connections_.set_port({.index = port.index,
                           .gsi = *port.gsi,
                           .sa = *port.sa,
                           .device = tables_.name(hca),
                           .number = record.number,
                           .ca_guid = hca.guid});
  }
  return has_changes;
}

/// Creates the interface for the partition of the first P_Key, replacing one of another partition,
/// or one with another QP: that of a virtual function which has another number now.
void HostServices::set_up_interface(Port& port, Instant now) {
  const PKey pkey = interface_pkey(port.sa->port());
  const auto function = plane_.shared_ports().function_at(port.index);
  const Qpn qpn = ipoib_qpn(port.port_of_host, function ? function->number.value() : 0U);
  if (port.pkey == pkey && port.qpn == qpn) {
    return;
  }
  resolver_.remove_interface({.port = key_of(port.index), .pkey = port.pkey}, now);
  port.pkey = pkey;
  port.qpn = qpn;
  if (pkey.is_valid()) {
    // The topology was validated, so no two ports share an address.
    static_cast<void>(resolver_.add_interface(
        {.port = key_of(port.index), .pkey = pkey}, qpn, *port.sa,
        fabric::addresses_of(topology_, place_.position, port.port_of_host), now));
  }
}

Result<void> HostServices::set_carried(Carried carried) {
  const sa::SaClient& sa = *at(carried.port).sa;
  const auto& pkeys = sa.port().pkeys;
  if (std::ranges::find(pkeys, carried.pkey) == pkeys.end()) {
    return fail(ErrorCode::InvalidArgument, "the port is no member of the partition {:#06x}",
                carried.pkey.value());
  }
  resolver_.set_carried({.port = key_of(carried.port), .pkey = carried.pkey}, sa,
                        carried.addresses);
  if (Holding* const known = holding(carried.port, carried.pkey)) {
    known->carried = std::move(carried);
  } else {
    holdings_.push_back({.carried = std::move(carried)});
  }
  return {};
}

HostServices::Holding* HostServices::holding(PortIndex port, PKey pkey) {
  const auto found = std::ranges::find_if(holdings_, [&](const Holding& one) {
    return one.carried.port == port && one.carried.pkey == pkey;
  });
  return found == holdings_.end() ? nullptr : &*found;
}

void HostServices::hold_groups(PortIndex port, PKey pkey, std::span<const Gid> mgids, Instant now) {
  Holding* const of = holding(port, pkey);
  if (of == nullptr) {
    return;
  }
  sa::SaClient& sa = *at(port).sa;
  std::erase_if(of->groups, [&](const auto& held) {
    const bool is_left = std::ranges::find(mgids, held.first) == mgids.end();
    if (is_left) {
      sa.leave(held.second, now);
    }
    return is_left;
  });
  for (const Gid& mgid : mgids) {
    if (of->groups.contains(mgid)) {
      continue;
    }
    wire::McMemberRecord wanted{.mgid = mgid, .pkey = pkey};
    wanted.join_state = wire::JoinState::SendOnlyFullMember;
    // What the program is a member of exists. If it is gone meanwhile, so is the membership.
    const auto joined = sa.join(
        wanted, wire::kComponent<wire::McMemberRecord, "P_Key">,
        [](sa::MembershipId, const auto&, Instant) {}, now);
    if (joined) {
      of->groups.emplace(mgid, *joined);
    }
  }
}

void HostServices::drop_carried(PortIndex port, PKey pkey, Instant now) {
  hold_groups(port, pkey, {}, now);
  std::erase_if(holdings_, [&](const Holding& one) {
    return one.carried.port == port && one.carried.pkey == pkey;
  });
  resolver_.set_carried({.port = key_of(port), .pkey = pkey}, *at(port).sa, {});
}

void HostServices::take_neighbor(PortIndex port, PKey pkey, const IpAddress& neighbor,
                                 const Gid& gid) {
  resolver_.take_neighbor({.port = key_of(port), .pkey = pkey}, neighbor, gid);
}

/// One whose connection fails meanwhile drops what it carries.
void HostServices::ask_programs(Instant now) {
  while (const auto asked = resolver_.poll_question()) {
    const auto& [key, question] = *asked;
    const Holding* const of = holding(port_of(key.port), key.pkey);
    if (of != nullptr && now < question.until) {
      const auto ask = of->carried.ask;
      ask(question.address, question.until - now);
    }
  }
}

void HostServices::handle_datagram(PortIndex port, const mad::ReceivedDatagram& datagram,
                                   Instant now) {
  resolver_.handle_datagram(key_of(port), datagram, now);
}

void HostServices::handle_timeout(Instant now) {
  if (local_service_) {
    local_service_->handle_timeout(now);
  }
  for (const Port& port : ports_) {
    if (port.sa->deadline() <= now) {
      port.sa->handle_timeout(now);
    }
  }
  resolver_.handle_timeout(now);
  connections_.handle_timeout(now);
  ask_programs(now);
  while (auto sent = resolver_.poll_transmit()) {
    plane_.send(port_of(sent->first), std::move(sent->second), now);
  }
  for (const Port& port : ports_) {
    plane_.wake(port.index);  // its clients may have sent requests
  }
}

Instant HostServices::deadline() const {
  Instant next = std::min(resolver_.deadline(), connections_.deadline());
  if (local_service_) {
    next = std::min(next, local_service_->deadline());
  }
  for (const Port& port : ports_) {
    next = std::min(next, port.sa->deadline());
  }
  return next;
}

HostServicesTable::HostServicesTable(const fabric::TablesBuilder& tables, ManagementPlane& plane,
                                     const fabric::Topology& topology, std::uint64_t seed)
    : tables_(tables), plane_(plane), topology_(topology), seed_(seed) {
  plane_.set_sink(this);
}

/// New hosts are appended, in the tables as well as in the topology.
std::uint32_t HostServicesTable::position_of(NodeIndex node) {
  const auto nodes = tables_.nodes();
  while (positions_.size() < nodes.size()) {
    const bool is_host = nodes[positions_.size()].kind == fabric::NodeKind::Host;
    positions_.push_back(hosts_counted_);
    hosts_counted_ += is_host ? 1 : 0;
  }
  return positions_.at(node.value());
}

HostServices& HostServicesTable::host(NodeIndex node, Instant now) {
  WEFT_ASSERT(tables_.node(node).kind == fabric::NodeKind::Host && !tables_.node(node).is_removed(),
              "hosts of the fabric have services");
  std::unique_ptr<HostServices>& place = hosts_[node];
  if (!place) {
    place = std::make_unique<HostServices>(
        tables_, plane_, topology_,
        HostPosition{.node = node, .position = position_of(node), .seed = seed_ + node.value()},
        [this, node] { wake(node); }, now);
    for (const PortIndex port : other_owner_ ? place->ports() : std::vector<PortIndex>{}) {
      place->sa(port).set_other_owner([this, port](const Gid& mgid) {
        return other_owner_(port, mgid) ? Flags{wire::JoinState::FullMember}
                                        : Flags<wire::JoinState>{};
      });
    }
    if (local_service_links_) {
      place->use_local_service(local_service_links_(node));
    }
  }
  wake(node);
  return *place;
}

void HostServicesTable::set_local_services(LocalServiceLinks links) {
  local_service_links_ = std::move(links);
  for (const auto& [node, host] : hosts_) {
    host->use_local_service(local_service_links_(node));
  }
}

bool HostServicesTable::holds_membership(PortIndex port, const Gid& mgid) const {
  const auto found = hosts_.find(tables_.port(port).node);
  return found != hosts_.end() &&
         found->second->sa(port).join_states_of(mgid).has(wire::JoinState::FullMember);
}

void HostServicesTable::remove_devices(NodeIndex node, Instant now) {
  if (const auto found = hosts_.find(node); found != hosts_.end()) {
    found->second->rdma_cm().remove_devices(now);
    found->second->handle_timeout(now);  // hands over to the plane what that sends
  }
}

void HostServicesTable::remove(NodeIndex node) {
  schedule(node, Instant::never());
  deadlines_.erase(node);
  hosts_.erase(node);
}

void HostServicesTable::wake(NodeIndex node) {
  if (is_runnable_.insert(node).second) {
    runnable_.push_back(node);
  }
}

void HostServicesTable::schedule(NodeIndex node, Instant deadline) {
  Instant& known = deadlines_.try_emplace(node, Instant::never()).first->second;
  if (known != deadline) {
    schedule_.erase({known, node});
    known = deadline;
    if (deadline != Instant::never()) {
      schedule_.emplace(deadline, node);
    }
  }
}

void HostServicesTable::run(Instant now) {
  if (ports_as_of_ != tables_.port_changes()) {
    ports_as_of_ = tables_.port_changes();
    for (const auto& [node, host] : hosts_) {
      if (host->update_ports(now)) {
        wake(node);
      }
    }
  }
  while (!schedule_.empty() && schedule_.begin()->first <= now) {
    const NodeIndex node = schedule_.begin()->second;
    schedule(node, Instant::never());
    wake(node);
  }
  const std::vector<NodeIndex> turn = std::exchange(runnable_, {});
  is_runnable_.clear();
  for (const NodeIndex node : turn) {
    if (const auto found = hosts_.find(node); found != hosts_.end()) {
      found->second->handle_timeout(now);
      schedule(node, found->second->deadline());
    }
  }
}

Instant HostServicesTable::deadline() const {
  if (!runnable_.empty() || ports_as_of_ != tables_.port_changes()) {
    return Instant{};
  }
  return schedule_.empty() ? Instant::never() : schedule_.begin()->first;
}

/// True if the datagram solicits an address of a host whose services are not yet created.
bool HostServicesTable::is_solicitation_for(PortIndex at, ByteSpan payload) {
  const auto message = wire::parse_ipoib(payload);
  if (!message) {
    return false;
  }
  IpAddress target;
  if (const auto* const arp = std::get_if<wire::ArpMessage>(&*message)) {
    target = arp->target;
  } else if (const auto* const neighbor = std::get_if<wire::NeighborMessage>(&*message)) {
    target = neighbor->target;
  } else {
    return false;
  }
  return has_from_topology(at, target);
}

bool HostServicesTable::has_from_topology(PortIndex port, const IpAddress& address) {
  const NodeIndex node = tables_.port(port).node;
  const std::uint32_t port_of_host = port.value() - tables_.node(node).first_port.value();
  const auto addresses = fabric::addresses_of(topology_, position_of(node), port_of_host);
  return std::ranges::find(addresses, address, &InterfaceAddress::address) != addresses.end();
}

bool HostServicesTable::has_address(PortIndex port, const IpAddress& address) {
  const HostServices* const services = find(tables_.port(port).node);
  if (services == nullptr) {
    return has_from_topology(port, address);
  }
  const auto own = services->resolver().find_own(address);
  return own && port_of(own->interface.port) == port;
}

const HostServices* HostServicesTable::find(NodeIndex node) const {
  const auto found = hosts_.find(node);
  return found == hosts_.end() ? nullptr : found->second.get();
}

/// Whether a datagram that came by a shared port is this function's: by its QPN, or as one to a
/// group of which everyone but its sender gets a copy.
bool HostServicesTable::is_for(PortIndex port, const mad::ReceivedDatagram& datagram) const {
  if (datagram.destination_qp == kMulticastQpn) {
    const std::optional<mad::GlobalRoute>& from = datagram.source.global;
    return !from || tables_.gids(port).front() != from->dgid;
  }
  const auto function = plane_.shared_ports().function_at(port);
  const std::uint32_t port_of_host =
      port.value() - tables_.node(tables_.port(port).node).first_port.value();
  return datagram.destination_qp ==
         ipoib_qpn(port_of_host, function ? function->number.value() : 0U);
}

void HostServicesTable::take(PortIndex at, const mad::ReceivedDatagram& datagram, Instant now) {
  const std::vector<PortIndex> functions = plane_.shared_ports().functions_of(at);
  if (functions.empty() || is_for(at, datagram)) {
    take_at(at, datagram, now);
  }
  for (const PortIndex function : functions) {
    if (is_for(function, datagram)) {
      take_at(function, datagram, now);
    }
  }
}

void HostServicesTable::take_at(PortIndex at, const mad::ReceivedDatagram& datagram, Instant now) {
  const NodeIndex node = tables_.port(at).node;
  if (has(node) || is_solicitation_for(at, datagram.payload)) {
    HostServices& services = host(node, now);
    services.handle_datagram(at, datagram, now);
  }
}

}  // namespace weft::node
