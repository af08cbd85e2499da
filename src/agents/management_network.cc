#include "agents/management_network.h"

#include <algorithm>
#include <cassert>
#include <span>
#include <utility>

#include "fabric/path.h"

namespace weft::agents {

using fabric::PortIndex;
using fabric::PortRecord;
using fabric::PortState;
using mad::InterfaceKind;

namespace {

constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::MadHeader>;

[[nodiscard]] wire::ManagementClass class_of(const mad::MadBytes& mad) {
  return wire::unpack<wire::MadHeader>(std::span{mad}.first<kHeaderBytes>()).mgmt_class;
}

}  // namespace

ManagementNetwork::ManagementNetwork(fabric::TablesBuilder& tables, FabricAgents& agents,
                                     MadSink& sink, const CableOptions& cables)
    : tables_(tables),
      agents_(agents),
      sink_(sink),
      queued_of_(tables.ports().size()),
      cables_(tables, cables),
      next_psn_(tables.ports().size()) {}

void ManagementNetwork::grow() {
  queued_of_.resize(tables_.ports().size());
  next_psn_.resize(tables_.ports().size());
}

void ManagementNetwork::send(PortIndex from, InterfaceKind kind, const mad::MadPacket& packet) {
  assert(agents_.management_port(from) == from);
  if (has_room(from)) {
    queue_.push_back({.from = from, .kind = kind, .packet = packet});
  }
}

bool ManagementNetwork::has_room(PortIndex from) {
  if (queued() >= kQueued || queued_of_[from.value()] >= kQueuedOfPort) {
    ++counters_.queue_full;
    return false;
  }
  ++queued_of_[from.value()];
  return true;
}

bool ManagementNetwork::run(std::size_t budget, Instant now) {
  agents_.handle_timeout(now);
  cables_.set_time(now);
  for (; budget != 0; --budget) {
    if (!late_.empty() && late_.begin()->first <= now) {
      Late late = std::move(late_.extract(late_.begin()).mapped());
      land(late.parcel, late.arrival, now);
      continue;
    }
    if (const auto trap = agents_.traps().poll(now)) {
      carry_trap(*trap, now);
      continue;
    }
    if (queued() == 0) {
      queue_.clear();
      head_ = 0;
      return false;
    }
    Parcel parcel = std::move(queue_[head_++]);
    --queued_of_[parcel.from.value()];
    carry(parcel, now);
    constexpr std::size_t kWorthMoving = 1024;
    if (head_ >= kWorthMoving && head_ * 2 >= queue_.size()) {
      queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(head_));
      head_ = 0;
    }
  }
  return deadline() <= now;
}

Instant ManagementNetwork::deadline() const {
  if (queued() != 0) {
    return Instant{};
  }
  return late_.empty() ? agents_.deadline() : std::min(agents_.deadline(), late_.begin()->first);
}

void ManagementNetwork::carry_trap(const DueTrap& trap, Instant now) {
  const PortRecord& record = tables_.port(trap.port);
  ++counters_.traps;
  Parcel parcel{
      .from = trap.port,
      .kind = InterfaceKind::Smi,
      .packet = {.address = {.lid = record.sm_lid, .sl = record.sm_sl, .qp = kQp0},
                 .bytes = trap.mad}
  };
  carry(parcel, now);
}

/// Takes a MAD to where it goes, and the answer of an agent back.
void ManagementNetwork::carry(Parcel& parcel, Instant now) {
  if (parcel.datagram != nullptr) {
    return carry_datagram(parcel, now);
  }
  Psn& next_psn = next_psn_[parcel.from.value()][parcel.kind == InterfaceKind::Smi ? 0 : 1];
  parcel.psn = next_psn;
  next_psn = next_psn + 1;
  if (const auto arrival = travel(parcel, now)) {
    land_or_hold(parcel, *arrival, now);
  }
}

void ManagementNetwork::land_or_hold(Parcel& parcel, const Arrival& arrival, Instant now) {
  if (parcel.held_back == Duration{}) {
    land(parcel, arrival, now);
  } else if (late_.size() < kQueued) {
    late_.emplace(now + parcel.held_back, Late{.parcel = parcel, .arrival = arrival});
  } else {
    ++counters_.queue_full;
  }
}

/// Each copy that has come so far.
void ManagementNetwork::land(Parcel& parcel, const Arrival& arrival, Instant now) {
  parcel.held_back = {};
  for (std::uint32_t copies = std::exchange(parcel.copies, 1); copies > 1; --copies) {
    Parcel copy = parcel;
    receive(copy, arrival, now);
  }
  receive(parcel, arrival, now);
}

void ManagementNetwork::receive(Parcel& parcel, const Arrival& arrival, Instant now) {
  ++counters_.carried;
  if (parcel.datagram != nullptr) {
    return receive_datagram(parcel, arrival, now);
  }
  const mad::MadAddress source = source_of(parcel, arrival);
  const PortIndex own = agents_.management_port(arrival.at);
  const Outcome outcome = agents_.handle(arrival.at, parcel.kind, parcel.packet.bytes, now);
  if (outcome == Outcome::NotMine) {
    sink_.deliver(own, parcel.kind, source, parcel.packet.bytes, now);
  }
  if (outcome == Outcome::Answered && !parcel.is_answer) {
    parcel.from = own;
    parcel.packet.address = source;
    parcel.is_answer = true;
    parcel.on_wire = {};
    carry(parcel, now);
  }
  agents_.finish_sets(now);
}

std::optional<ManagementNetwork::Arrival> ManagementNetwork::travel(Parcel& parcel, Instant now) {
  if (parcel.kind == InterfaceKind::Smi) {
    if (class_of(parcel.packet.bytes) == wire::ManagementClass::SubnDirectedRoute) {
      return travel_directed(parcel);
    }
    return travel_by_lid(parcel, parcel.from, parcel.packet.address.lid);
  }
  if (parcel.packet.address.qp != kQp1) {
    ++counters_.no_such_place;
    return std::nullopt;
  }
  const auto arrival = travel_by_lid(parcel, parcel.from, parcel.packet.address.lid);
  return arrival && keys_pass(parcel, *arrival, now) ? arrival : std::nullopt;
}

/// VL15 passes in Initialize, data only from an Active port to one that is Armed at least (IBTA vol
/// 1 §7.2.7).
bool ManagementNetwork::passes(PortIndex egress, InterfaceKind kind) const {
  const PortRecord& from = tables_.port(egress);
  const PortRecord& to = tables_.port(from.peer);
  return kind == InterfaceKind::Smi
             ? from.state != PortState::Down && to.state != PortState::Down
             : from.state == PortState::Active && to.state >= PortState::Armed;
}

/// The other side of the cable, if the packet gets there.
PortIndex ManagementNetwork::cross(Parcel& parcel, PortIndex egress, const LinkAddress& address) {
  const PortIndex ingress = tables_.port(egress).peer;
  if (ingress == fabric::kNoPort) {
    ++counters_.link_down;
    return fabric::kNoPort;
  }
  if (!passes(egress, parcel.kind)) {
    ++counters_.link_down;
    cables_.drop(egress, parcel.copies, fabric::PathEnd::PortInactive);
    return fabric::kNoPort;
  }
  MadOnCable crosses{.kind = parcel.kind,
                     .slid = address.slid,
                     .dlid = address.dlid,
                     .psn = parcel.psn,
                     .source = parcel.from,
                     .to = parcel.packet.address,
                     .bytes = parcel.packet.bytes};
  if (parcel.datagram != nullptr) {
    crosses.bytes = parcel.datagram->payload;
    crosses.source_qp = parcel.datagram->source_qp;
    if (crosses.bytes.size() > bytes(tables_.port(egress).active_mtu)) {
      ++counters_.too_long;
      cables_.drop(egress, parcel.copies, fabric::PathEnd::NeighborMtu);
      return fabric::kNoPort;
    }
  }
  const auto crossing =
      cables_.cross({.egress = egress, .ingress = ingress}, crosses, parcel.copies);
  parcel.copies = crossing.arrived;
  parcel.held_back = parcel.held_back + crossing.held_back;
  if (const Duration more = crossing.on_wire - parcel.on_wire; more > Duration{}) {
    parcel.on_wire = parcel.on_wire + more;
    parcel.held_back = parcel.held_back + more;
  }
  if (crossing.arrived == 0) {
    ++counters_.lost;
    return fabric::kNoPort;
  }
  return ingress;
}

std::optional<ManagementNetwork::Arrival> ManagementNetwork::travel_by_lid(Parcel& parcel,
                                                                           PortIndex from,
                                                                           Lid dlid) {
  const auto dropped = [](std::uint64_t& counter) {
    ++counter;
    return std::nullopt;
  };
  const PortRecord& origin = tables_.port(from);
  if (origin.owns(dlid)) {
    return Arrival{.at = from, .source = from};
  }
  const bool is_smi = parcel.kind == InterfaceKind::Smi;
  const std::uint32_t path_bits = parcel.packet.address.path_bits & ((1U << origin.lmc) - 1);
  const LinkAddress address{.slid = Lid{origin.lid.value() + path_bits}, .dlid = dlid};
  PortIndex at = from;
  if (!origin.is_switch_port()) {
    at = cross(parcel, from, address);
    if (at == fabric::kNoPort) {
      return std::nullopt;
    }
    if (dlid.is_permissive() && is_smi) {  // §4.1.3: the neighbour's QP0
      return Arrival{.at = at, .source = from, .is_permissive = true};
    }
  }
  if (!dlid.is_unicast()) {
    return dropped(counters_.no_such_place);
  }
  for (std::size_t hops = 0; hops < fabric::kMaxHops; ++hops) {
    const PortRecord& port = tables_.port(at);
    if (!port.is_switch_port()) {
      return port.owns(dlid) ? std::optional{Arrival{.at = at, .source = from}}
                             : dropped(counters_.no_such_place);
    }
    const PortNumber out = tables_.forward(port.node, dlid);
    if (out == fabric::kNoRoute) {
      return dropped(counters_.no_route);
    }
    const PortIndex egress = agents_.port_of_switch(port.node, out);
    if (out == PortNumber{}) {
      return tables_.port(egress).owns(dlid)
                 ? std::optional{Arrival{.at = at, .source = from}}
                 : dropped(counters_.no_such_place);
    }
    at = cross(parcel, egress, address);
    if (at == fabric::kNoPort) {
      return std::nullopt;
    }
  }
  return dropped(counters_.no_route);
}

/// P_Key of what comes to a port, and Q_Key to QP1 (IBTA vol 1 §10.9.3, §10.2.5). A sender can only
/// have used a P_Key of its own table.
bool ManagementNetwork::keys_pass(const Parcel& parcel, const Arrival& arrival, Instant now) {
  const mad::MadAddress& address = parcel.packet.address;
  const PortIndex own = agents_.management_port(arrival.at);
  const auto has = [&](PortIndex port, auto test) {
    return std::ranges::any_of(tables_.pkeys(port), test);
  };
  if (!has(parcel.from, [&](PKey pkey) { return pkey == address.pkey; })) {
    ++counters_.bad_key;
    return false;
  }
  const bool has_pkey = has(own, [&](PKey pkey) { return pkey.matches(address.pkey); });
  if (has_pkey && (parcel.datagram != nullptr || address.qkey == kGsiQKey)) {
    return true;
  }
  ++counters_.bad_key;
  BadKey bad{.source = tables_.port(arrival.source).lid,
             .destination = address.lid,
             .sl = address.sl,
             .source_qp = parcel.datagram != nullptr ? parcel.datagram->source_qp : kQp1,
             .destination_qp = address.qp,
             .source_gid = tables_.gids(arrival.source).front()};
  if (!has_pkey) {
    bad.key = address.pkey.value();
    agents_.note_bad_pkey(own, bad, now);
  } else {
    bad.key = address.qkey.value();
    agents_.note_bad_qkey(own, bad, now);
  }
  return false;
}

/// How the receiver sees the sender, and reaches it.
mad::MadAddress ManagementNetwork::source_of(const Parcel& parcel, const Arrival& arrival) const {
  const mad::MadAddress& to = parcel.packet.address;
  const PortRecord& source = tables_.port(arrival.source);
  const PortRecord& own = tables_.port(agents_.management_port(arrival.at));
  const bool is_smi = parcel.kind == InterfaceKind::Smi;
  // Path bits choose among the sender's own LIDs and reach no other's.
  const std::uint32_t path_bits = to.path_bits & ((1U << source.lmc) - 1);
  mad::MadAddress from{
      .lid = arrival.is_permissive ? kPermissiveLid : Lid{source.lid.value() + path_bits},
      .sl = to.sl,
      .qp = is_smi ? kQp0 : kQp1,
      .qkey = is_smi ? QKey{} : kGsiQKey,
      .pkey = to.pkey};
  // The receiver knows by which of its own P_Keys the packet came in, and answers by that.
  const std::span<const PKey> own_keys = tables_.pkeys(agents_.management_port(arrival.at));
  const auto matching = [&](PKey own_key) { return own_key.matches(to.pkey); };
  if (const auto key = std::ranges::find_if(own_keys, matching); !is_smi && key != own_keys.end()) {
    from.pkey = *key;
  }
  if (parcel.datagram != nullptr) {
    from.qp = parcel.datagram->source_qp;
    from.qkey = to.qkey;
  }
  if (own.owns(to.lid)) {
    from.path_bits = static_cast<std::uint8_t>(to.lid.value() - own.lid.value());
  }
  if (to.global) {
    from.global = to.global;
    from.global->gid = tables_.gids(arrival.source).front();
  }
  return from;
}

}  // namespace weft::agents
