// ManagementNetwork's 16B packets: they go by the tables of Omni-Path switches, to one port or to a
// group, and cables treat them as all others.

#include <memory>
#include <utility>

#include "base/assert.h"
#include "carriage/management_network.h"

namespace weft::carriage {

using fabric::PathEnd;
using fabric::PortIndex;
using fabric::PortRecord;

void ManagementNetwork::send(PortIndex from, OmniPathPacket packet) {
  const PortRecord& port = tables_.port(from);
  WEFT_ASSERT(port.is_omni_path() && !port.is_switch_port(), "16B packets begin at hosts' ports");
  if (packet.octets.size() > kMaxOmniPathPacketBytes) {
    ++counters_.too_long;
    return;
  }
  if (!port.owns(packet.address.source)) {
    ++counters_.unroutable;  // nobody sends in another's name
    return;
  }
  if (packet.service_channel == OmniPathPacket::kManagementChannel && !packet.is_management) {
    ++counters_.link_down;
    cables_.drop(from, 1, PathEnd::ManagementLane);
    return;
  }
  if (!has_room_for(from, packet.octets.size())) {
    return;
  }
  InFlightPacket in_flight{.from = from, .kind = mad::InterfaceKind::Gsi};
  in_flight.packet.address.lid = Lid{packet.address.destination.value()};
  in_flight.packet.address.pkey = packet.pkey;
  in_flight.omni_path = std::make_shared<const OmniPathPacket>(std::move(packet));
  queue_.push_back(std::move(in_flight));
}

fabric::MulticastTree ManagementNetwork::tree_of(const InFlightPacket& packet) const {
  return packet.omni_path != nullptr
             ? fabric::resolve_multicast(tables_, packet.from,
                                         packet.omni_path->address.destination)
             : fabric::resolve_multicast(tables_, packet.from, packet.packet.address.lid);
}

void ManagementNetwork::receive_omni_path(const InFlightPacket& packet, Instant now) {
  if (omni_path_sink_ == nullptr || tables_.port(packet.arrival.at).is_switch_port()) {
    ++counters_.unroutable;
    return;
  }
  omni_path_sink_->take(packet.arrival.at, *packet.omni_path, now);
}

}  // namespace weft::carriage
