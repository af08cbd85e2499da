// ManagementNetwork: how a packet gets on, cable by cable. Directed route SMPs go where the nodes'
// SMIs say; all else, and the LID routed parts of directed routes (IBTA vol 1 §14.2.2.1), by the
// forwarding tables.

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "carriage/management_network.h"
#include "fabric/walk.h"

namespace weft::carriage {

using fabric::Hop;
using fabric::LinkAddress;
using fabric::PathEnd;
using fabric::PathUse;
using fabric::PortIndex;
using fabric::PortRecord;
using mad::InterfaceKind;

namespace {

constexpr std::size_t kMadHeaderBytes = wire::kSizeOf<wire::MadHeader>;
constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SmpDirectedHeader>;
constexpr std::uint8_t kMaxHopCount = wire::kSmpPathEntries - 1;

[[nodiscard]] bool is_directed_smp(const InFlightPacket& packet) {
  return packet.kind == InterfaceKind::Smi &&
         wire::unpack<wire::MadHeader>(std::span{packet.packet.bytes}.first<kMadHeaderBytes>())
                 .mgmt_class == wire::ManagementClass::SubnDirectedRoute;
}

/// Those of Omni-Path as LIDs with more bits.
[[nodiscard]] fabric::LidPair lids_of(const LinkAddress& address) {
  if (const fabric::ExtendedLidPair* const extended = address.extended_lids()) {
    return {Lid{extended->source.value()}, Lid{extended->destination.value()}};
  }
  return *address.lids();
}

[[nodiscard]] DirectedSmp unpack_directed(mad::MadBytes& mad) {
  return {.mad = mad,
          .header = wire::unpack<wire::SmpDirectedHeader>(std::span{mad}.first<kHeaderBytes>()),
          .route = wire::unpack<wire::SmpRoute>(
              std::span{mad}.subspan<wire::kSmpRouteAt, wire::kSizeOf<wire::SmpRoute>>())};
}

}  // namespace

/// False: it cannot leave at all.
bool ManagementNetwork::set_out(InFlightPacket& packet) {
  packet.set_out();
  packet.is_directed = is_directed_smp(packet);
  if (packet.is_mad() && packet.kind == InterfaceKind::Gsi && packet.packet.address.qp != kQp1) {
    ++counters_.unroutable;
    return false;
  }
  return true;
}

void ManagementNetwork::begin_part_by_lid(InFlightPacket& packet, PortIndex from, Lid dlid) {
  const PortRecord& origin = tables_.port(from);
  const std::uint32_t path_bits = packet.packet.address.path_bits & ((1U << origin.lmc) - 1);
  packet.arrival.at = from;
  if (packet.omni_path != nullptr) {
    packet.by_lid.emplace(tables_, from, LinkAddress{packet.omni_path->address},
                          fabric::Traffic::Data);
    return;
  }
  packet.by_lid.emplace(tables_, from, LinkAddress{Lid{origin.lid.value() + path_bits}, dlid},
                        packet.kind == InterfaceKind::Smi ? fabric::Traffic::SubnetManagement
                                                          : fabric::Traffic::Data);
}

ManagementNetwork::Progress ManagementNetwork::travel(InFlightPacket& packet, Instant now) {
  const bool begins = !std::exchange(packet.has_left, true);
  if (packet.is_directed) {
    return travel_directed(packet, begins, now);
  }
  if (begins) {
    begin_part_by_lid(packet, packet.from, packet.packet.address.lid);
  }
  return travel_by_lid(packet, now);
}

ManagementNetwork::Progress ManagementNetwork::travel_by_lid(InFlightPacket& packet, Instant now) {
  while (packet.next || (packet.next = packet.by_lid->next())) {
    const Progress progress = cross(packet, lids_of(packet.by_lid->address()), now);
    if (progress != Progress::Arrived) {
      return progress;
    }
  }
  const fabric::WalkEnd& end = packet.by_lid->end();
  if (!end.is_delivered()) {
    drop(packet, end);
    return Progress::Gone;
  }
  packet.arrival.source = packet.by_lid->source();
  packet.arrival.is_permissive =
      packet.omni_path == nullptr && lids_of(packet.by_lid->address()).destination.is_permissive();
  return Progress::Arrived;
}

ManagementNetwork::Progress ManagementNetwork::travel_directed(InFlightPacket& packet, bool begins,
                                                               Instant now) {
  DirectedSmp smp = unpack_directed(packet.packet.bytes);
  smp.at = packet.from;
  smp.phase = packet.phase;
  const auto refuse = [&] {
    ++counters_.bad_path;
    return Progress::Gone;
  };
  if (begins) {
    if (smp.header.hop_count > kMaxHopCount) {
      return refuse();
    }
    // §14.2.2.1: the part before the directed one is LID routed, unless its end is permissive.
    const Lid first = smp.header.direction ? smp.route.dr_dlid : smp.route.dr_slid;
    if (!first.is_permissive()) {
      begin_part_by_lid(packet, packet.from, packet.packet.address.lid);
    }
  }
  // Each step moves the hop pointer, so this ends.
  for (;;) {
    if (packet.by_lid) {
      if (const Progress progress = travel_by_lid(packet, now); progress != Progress::Arrived) {
        return progress;
      }
      packet.by_lid.reset();
      packet.arrival.is_permissive = false;
      smp.at = packet.arrival.at;
      if (smp.phase == SmiPhase::Start && smp.header.hop_count != 0 &&
          !tables_.port(smp.at).is_switch_port()) {
        return refuse();  // only a switch can go on from here
      }
    } else if (packet.next) {
      const PortIndex ingress = packet.next->ingress;
      const Progress progress = cross(packet, {kPermissiveLid, kPermissiveLid}, now);
      if (progress != Progress::Arrived) {
        return progress;
      }
      smp.at = ingress;
      smp.phase = SmiPhase::Wire;
      packet.arrival.is_permissive = true;
    }
    const SmiStep step = agents_.next_step(smp);
    if (step.kind == SmiStep::Kind::Refused) {
      return refuse();
    }
    wire::pack(smp.header, std::span{smp.mad}.first<kHeaderBytes>());  // as it goes on
    if (step.kind == SmiStep::Kind::Arrived) {
      packet.arrival.at = smp.at;
      return Progress::Arrived;
    }
    if (step.kind == SmiStep::Kind::ByLid) {
      smp.phase = packet.phase = SmiPhase::AfterLidRoute;
      begin_part_by_lid(packet, fabric::management_port(tables_, smp.at), step.dlid);
      continue;
    }
    const auto failure =
        fabric::blocking_end(tables_, step.egress, fabric::Traffic::SubnetManagement);
    if (failure) {
      drop(packet, {*failure, PathEnd::PortInactive, step.egress});
      return Progress::Gone;
    }
    packet.next = Hop{step.egress, tables_.port(step.egress).peer};
  }
}

PacketOnCable ManagementNetwork::on_cable(const InFlightPacket& packet,
                                          const fabric::LidPair& address) {
  PacketOnCable crosses{.kind = packet.kind,
                        .slid = address.source,
                        .dlid = address.destination,
                        .psn = packet.psn,
                        .source = packet.from,
                        .to = packet.packet.address,
                        .bytes = packet.packet.bytes};
  if (packet.datagram != nullptr) {
    crosses.bytes = packet.datagram->payload;
    crosses.source_qp = packet.datagram->source_qp;
  } else if (packet.omni_path != nullptr) {
    crosses.bytes = packet.omni_path->octets;
    crosses.omni_path = packet.omni_path.get();
  }
  return crosses;
}

bool ManagementNetwork::may_cross(InFlightPacket& packet, std::span<const Hop> hops,
                                  std::size_t payload_bytes, Instant now) {
  packet.waits_since = std::min(packet.waits_since, now);
  if (!cables_.may_cross(hops, payload_bytes, packet.copies, packet.waits_since) &&
      waiting_.size() < kWaitingForCaptures) {
    return false;
  }
  packet.waits_since = Instant::never();
  return true;
}

/// To the other end of the next cable, if the packet gets there.
ManagementNetwork::Progress ManagementNetwork::cross(InFlightPacket& packet,
                                                     const fabric::LidPair& address, Instant now) {
  const Hop hop = *packet.next;
  const PacketOnCable crosses = on_cable(packet, address);
  if (crosses.is_too_long(tables_.port(hop.egress))) {
    ++counters_.too_long;
    cables_.drop(hop.egress, packet.copies, PathEnd::NeighborMtu);
    return Progress::Gone;
  }
  if (!may_cross(packet, {&hop, 1}, crosses.bytes.size(), now)) {
    return Progress::Waits;
  }
  packet.next.reset();
  packet.arrival.at = hop.ingress;
  const auto crossing = cables_.cross(hop, crosses, packet.copies);
  packet.copies = crossing.arrived;
  packet.delay = packet.delay + crossing.held_back;
  packet.departs = std::max(packet.departs, now + crossing.on_wire);
  if (crossing.arrived == 0) {
    ++counters_.lost;
    return Progress::Gone;
  }
  return Progress::Arrived;
}

void ManagementNetwork::drop(const InFlightPacket& packet, const fabric::WalkEnd& end) {
  switch (end.outcome) {
    case PathUse::Delivered:
      return;
    case PathUse::SourceDown:
    case PathUse::NoCable:
    case PathUse::LinkDown:
    case PathUse::ManagementLane:  // of what no data QP sends: not asked for
      ++counters_.link_down;
      break;
    case PathUse::NoRoute:
    case PathUse::Loop:
      ++counters_.no_route;
      break;
    case PathUse::NotTheOwner:
    case PathUse::InvalidDlid:
      ++counters_.unroutable;
      break;
  }
  cables_.drop(end.port, packet.copies, end.end);
}

}  // namespace weft::carriage
