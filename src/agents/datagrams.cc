// ManagementNetwork's datagrams that are no MADs: to one port as MADs of QP1 go, or to a group.

#include <algorithm>
#include <cassert>
#include <unordered_set>
#include <utility>
#include <vector>

#include "agents/management_network.h"

namespace weft::agents {

using fabric::PortIndex;
using fabric::PortRecord;

void ManagementNetwork::send(PortIndex from, mad::Datagram datagram) {
  assert(!tables_.port(from).is_switch_port());
  if (datagram.payload.size() > bytes(tables_.port(from).max_mtu)) {
    ++counters_.too_long;
    return;
  }
  if (queued_bytes_ + datagram.payload.size() > kQueuedBytes) {
    ++counters_.queue_full;
    return;
  }
  if (!has_room(from)) {
    return;
  }
  queued_bytes_ += datagram.payload.size();
  Parcel parcel{.from = from, .kind = mad::InterfaceKind::Gsi};
  parcel.packet.address = datagram.to;
  parcel.datagram = std::make_shared<const mad::Datagram>(std::move(datagram));
  queue_.push_back(std::move(parcel));
}

void ManagementNetwork::carry_datagram(Parcel& parcel, Instant now) {
  queued_bytes_ -= parcel.datagram->payload.size();
  Psn& next_psn = next_psn_[parcel.from.value()][2];
  parcel.psn = next_psn;
  next_psn = next_psn + 1;
  if (parcel.packet.address.lid.is_multicast()) {
    return carry_to_group(parcel, now);
  }
  const auto arrival = travel_by_lid(parcel, parcel.from, parcel.packet.address.lid);
  if (arrival && keys_pass(parcel, *arrival, now)) {
    land_or_hold(parcel, *arrival, now);
  }
}

/// Replication along the multicast forwarding tables. A packet that came back to where it was would
/// go on for ever, so each direction of a cable is crossed once. Members of the group behind the
/// sender's own port get it from there, not from here.
void ManagementNetwork::carry_to_group(Parcel& parcel, Instant now) {
  const PortRecord& origin = tables_.port(parcel.from);
  const Lid mlid = parcel.packet.address.lid;
  const LinkAddress address{.slid = origin.lid, .dlid = mlid};
  struct Branch {
    PortIndex ingress;
    Parcel parcel;
  };
  std::vector<Branch> branches;
  std::unordered_set<std::uint32_t> crossed;
  const auto branch_off = [&](const Parcel& before, PortIndex egress) {
    if (crossed.insert(egress.value()).second) {
      Parcel copy = before;
      const PortIndex ingress = cross(copy, egress, address);
      if (ingress != fabric::kNoPort) {
        branches.push_back({.ingress = ingress, .parcel = std::move(copy)});
      }
    }
  };
  branch_off(parcel, parcel.from);
  for (std::size_t i = 0; i < branches.size(); ++i) {
    const PortIndex ingress = branches[i].ingress;
    Parcel here = std::move(branches[i].parcel);
    const PortRecord& port = tables_.port(ingress);
    if (!port.is_switch_port()) {
      const Arrival arrival{.at = ingress, .source = parcel.from, .is_permissive = false};
      if (ingress != parcel.from && keys_pass(here, arrival, now)) {
        land_or_hold(here, arrival, now);
      }
      continue;
    }
    const std::uint32_t port_count = tables_.node(port.node).port_count;
    constexpr std::uint32_t kMaskBits = 16;
    for (std::uint32_t position = 0; position * kMaskBits < port_count; ++position) {
      const std::uint16_t mask = tables_.multicast_mask(port.node, mlid, position);
      for (std::uint32_t bit = 0; mask != 0 && bit < kMaskBits; ++bit) {
        const PortNumber out{static_cast<std::uint8_t>(position * kMaskBits + bit)};
        if ((mask >> bit & 1) != 0 && out != PortNumber{} && out != port.number) {
          branch_off(here, agents_.port_of_switch(port.node, out));
        }
      }
    }
  }
}

void ManagementNetwork::receive_datagram(const Parcel& parcel, const Arrival& arrival,
                                         Instant now) {
  if (datagram_sink_ == nullptr || tables_.port(arrival.at).is_switch_port()) {
    ++counters_.no_such_place;
    return;
  }
  const mad::MadAddress& to = parcel.packet.address;
  datagram_sink_->take(arrival.at,
                       {.destination_qp = to.qp,
                        .destination_gid = to.global ? to.global->gid : Gid{},
                        .source = source_of(parcel, arrival),
                        .payload = parcel.datagram->payload},
                       now);
}

}  // namespace weft::agents
