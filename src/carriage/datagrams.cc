// ManagementNetwork's datagrams that are no MADs: to one port as MADs of QP1 go, or to a group, as
// 16B packets of Omni-Path do, too.

#include <memory>
#include <utility>

#include "base/assert.h"
#include "carriage/management_network.h"

namespace weft::carriage {

using fabric::PortIndex;
using fabric::PortRecord;

void ManagementNetwork::send(PortIndex from, mad::Datagram datagram) {
  WEFT_ASSERT(!tables_.port(from).is_switch_port(), "datagrams begin at ports of hosts");
  if (datagram.payload.size() > bytes(tables_.port(from).max_mtu)) {
    ++counters_.too_long;
    return;
  }
  if (!has_room_for(from, datagram.payload.size())) {
    return;
  }
  InFlightPacket packet{.from = from, .kind = mad::InterfaceKind::Gsi};
  packet.packet.address = datagram.to;
  packet.datagram = std::make_shared<const mad::Datagram>(std::move(datagram));
  queue_.push_back(std::move(packet));
}

/// Along the tree that the multicast forwarding tables make. Members of the group behind the
/// sender's own port get the packet from there, not from here.
void ManagementNetwork::carry_to_group(InFlightPacket& packet, Instant now) {
  const fabric::MulticastTree tree = tree_of(packet);
  if (tree.outcome != fabric::PathUse::Delivered) {
    return drop(packet, {tree.outcome, fabric::PathEnd::PortInactive, tree.stopped_at});
  }
  const PacketOnCable crosses =
      on_cable(packet, {tables_.port(packet.from).lid, packet.packet.address.lid});
  if (!may_cross(packet, tree.edges, crosses.bytes.size(), now)) {
    return wait_for_captures(packet, now);
  }
  counters_.link_down += tree.dropped_at.size();
  const Cables::TreeCrossing crossing = cables_.cross(tree, crosses);
  for (std::size_t i = 0; i < tree.edges.size(); ++i) {
    const fabric::EdgeCrossing& edge = crossing.edges[i];
    counters_.lost += edge.lost + edge.damaged != 0 && edge.arrived == 0 ? 1 : 0;
    counters_.too_long += edge.is_too_long ? 1 : 0;
    const PortIndex ingress = tree.edges[i].ingress;
    if (edge.arrived == 0 || ingress == packet.from || tables_.port(ingress).is_switch_port()) {
      continue;
    }
    InFlightPacket copy = packet;
    copy.copies = edge.arrived;
    copy.arrival = {.at = ingress, .source = packet.from, .is_permissive = false};
    copy.delay = edge.held_back;
    if (!crossing.ends.empty()) {
      copy.departs = crossing.ends[i].departs;
      copy.delay = copy.delay + (crossing.ends[i].arrives - crossing.ends[i].departs);
    }
    if (keys_pass(copy, now)) {
      deliver_or_delay(copy, now);
    }
  }
}

void ManagementNetwork::receive_datagram(const InFlightPacket& packet, Instant now) {
  if (datagram_sink_ == nullptr || tables_.port(packet.arrival.at).is_switch_port()) {
    ++counters_.unroutable;
    return;
  }
  const mad::MadAddress& to = packet.packet.address;
  datagram_sink_->take(packet.arrival.at,
                       {.destination_qp = to.qp,
                        .destination_gid = to.global ? to.global->dgid : Gid{},
                        .source = source_of(packet),
                        .payload = packet.datagram->payload},
                       now);
}

}  // namespace weft::carriage
