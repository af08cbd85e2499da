#include <array>
#include <utility>

#include "ulp/opa_vnic/planted_bug.h"
#include "ulp/opa_vnic/virtual_port.h"

namespace weft::opa_vnic {
namespace {

/// Service channel and virtual lane of a frame (R-VN-16).
struct Lanes {
  std::uint8_t sc{};
  std::uint8_t vl{};
};

Lanes lanes_of(const FrameFacts& facts, const wire::PerVeswPortInfo& port) {
  const bool is_multicast = facts.destination.is_multicast();
  if (!facts.priority) {
    return is_multicast ? Lanes{port.untagged_multicast_sc, port.untagged_multicast_vl}
                        : Lanes{port.untagged_unicast_sc, port.untagged_unicast_vl};
  }
  const std::size_t pcp = *facts.priority;
  return is_multicast ? Lanes{port.multicast_sc[pcp], port.multicast_vl[pcp]}
                      : Lanes{port.unicast_sc[pcp], port.unicast_vl[pcp]};
}

}  // namespace

std::expected<VirtualPort::Sent, TxDrop> VirtualPort::transmit(ByteSpan frame) {
  auto sent = form_packet(frame);
  if (!sent) {
    counters_.count(sent.error());
  }
  return sent;
}

std::expected<VirtualPort::Sent, TxDrop> VirtualPort::form_packet(ByteSpan frame) {
  if (!is_forwarding()) {
    return std::unexpected(TxDrop::State);
  }
  const auto facts = facts_of(frame);
  if (!facts || frame.size() > max_frame_bytes() || frame.size() > wire::kMaxOpaFrameBytes) {
    return std::unexpected(TxDrop::Logic);
  }
  if (mac_table_->refuses_source(facts->source)) {
    return std::unexpected(TxDrop::SourceFilter);
  }
  const std::uint32_t dlid =
      choose_dlid(facts->destination, facts->entropy, info_.vesw, *mac_table_, flows_);
  if (dlid == 0) {
    return std::unexpected(TxDrop::NoDlid);
  }
  const Lanes lanes = lanes_of(*facts, info_.port);
  const wire::Opa16bHeader header{
      .slid = Lid{info_.port.encap_slid},
      .routing_control = routing_control(info_.vesw.routing_control, facts->kind),
      .service_channel = lanes.sc,
      .dlid = Lid{dlid},
      .pkey = PKey{info_.vesw.pkey},
      .entropy = facts->entropy,
      .vesw_id = info_.vesw.vesw_id};
  std::array<std::byte, wire::kMinEthernetFrameBytes> padded{};
  if (frame.size() < padded.size()) {
    copy_bytes(padded, frame);
    frame = padded;
  }
  counters_.count_sent(*facts, frame.size());
  return Sent{.packet = wire::to_opa_packet(header, frame), .vl = lanes.vl};
}

std::expected<ByteSpan, RxDrop> VirtualPort::receive(const wire::OpaEthernetPacket& packet) {
  const auto facts = facts_of(packet.frame);
  if (const auto drop = check(packet, facts)) {
    counters_.count(*drop);
    return std::unexpected(*drop);
  }
  counters_.count_received(*facts, packet.frame.size());
  return packet.frame;
}

/// None: the frame is whole, and so has facts.
std::optional<RxDrop> VirtualPort::check(const wire::OpaEthernetPacket& packet,
                                         const std::optional<FrameFacts>& facts) const {
  if (!packet.has_valid_icrc) {
    return RxDrop::Damaged;
  }
  if (!is_port_active_) {
    return RxDrop::EthDown;
  }
  if (!is_forwarding()) {
    return RxDrop::State;
  }
  if (packet.frame.size() > max_frame_bytes()) {
    return RxDrop::Oversize;
  }
  if (!facts || packet.frame.size() < wire::kMinEthernetFrameBytes) {
    return RxDrop::Runt;
  }
  if (!is_for_interface(facts->destination)) {
    return RxDrop::NotForUs;
  }
  return std::nullopt;
}

/// Frames to unknown stations are flooded, so others' arrive, too.
bool VirtualPort::is_for_interface(const wire::MacAddress& destination) const {
  return is_promiscuous_ || destination == mac_ || destination.is_broadcast() ||
         (destination.is_multicast() ? multicast_macs_ : unicast_macs_).has(destination) ||
         planted(PlantedBug::FilterIgnored);
}

}  // namespace weft::opa_vnic
