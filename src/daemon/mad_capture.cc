#include "daemon/mad_capture.h"

#include <array>
#include <span>

#include "hca/packet_record.h"
#include "host/tap_record.h"
#include "os/shared_memory.h"
#include "ring/spsc_ring.h"

namespace weft::daemon {

hca::Packet packet_of(const carriage::PacketOnCable& mad, const Gid& source_gid) {
  const mad::MadAddress& to = mad.to;
  const Qpn own = mad.sender();
  constexpr std::uint16_t kMaxBytes = 4096;  // largest MTU
  hca::Packet packet{.header = {}, .payload = mad.bytes};
  hca::PacketHeader& header = packet.header;
  header.opcode = header.last_opcode = wire::Opcode::UdSendOnly;
  header.path_mtu_bytes = mad.bytes.size() <= wire::kMadBytes ? wire::kMadBytes : kMaxBytes;
  header.sl = to.sl;
  header.dest_qp = to.qp;
  header.psn = mad.psn;
  header.pkey = own == kQp0 ? kDefaultPKey : to.pkey;  // ignored on QP0 (§10.9.8)
  header.slid = mad.slid;
  header.dlid = mad.dlid;
  header.extension.deth = {.qkey = own == kQp0 ? QKey{} : to.qkey, .src_qp = own};
  if (to.global) {
    header.has_grh = true;
    header.grh.traffic_class = to.global->traffic_class;
    header.grh.flow_label = to.global->flow_label;
    header.grh.hop_limit = to.global->hop_limit;
    header.grh.sgid = source_gid;
    header.grh.dgid = to.global->dgid;
  }
  return packet;
}

hca::Packet packet_of(const sriov::TunnelDatagram& mad, Lid lid) {
  constexpr std::uint16_t kMtu = 4096;  // of InfiniBand; a tunnelled MAD has more than 256 bytes
  hca::Packet packet{.header = {}, .payload = mad.payload};
  hca::PacketHeader& header = packet.header;
  header.opcode = header.last_opcode = wire::Opcode::UdSendOnly;
  header.path_mtu_bytes = kMtu;
  header.dest_qp = mad.dest_qp;
  header.pkey = kDefaultPKey;
  header.slid = header.dlid = lid;
  header.extension.deth = {.qkey = mad.qkey, .src_qp = mad.source_qp};
  return packet;
}

namespace {

/// Adds a ring for a capture of the port.
[[nodiscard]] Result<os::UniqueFd> open_ring(host::TapSet& taps, std::uint32_t capture,
                                             fabric::PortIndex port) {
  constexpr std::size_t kBytes = ring::ring_bytes(host::kTapRingCapacity);
  auto memory = os::create_shared_memory("weft-tap", kBytes);
  if (!memory) {
    return memory;
  }
  auto mapping = os::map_shared(*memory, os::Protection::ReadWrite, kBytes, kBytes);
  if (!mapping) {
    return std::unexpected(mapping.error());
  }
  taps.open(capture, port.value(), std::move(*mapping));
  return memory;
}

}  // namespace

Result<os::UniqueFd> MadCapture::open(std::uint32_t capture, fabric::PortIndex port) {
  return open_ring(taps_, capture, port);
}

Result<os::UniqueFd> MadCapture::open_tunnels(std::uint32_t capture, fabric::PortIndex port) {
  return open_ring(tunnel_taps_, capture, port);
}

void MadCapture::close(std::uint32_t capture) {
  taps_.close(capture);
  tunnel_taps_.close(capture);
}

/// Nobody else writes into these rings, so the room stays.
bool MadCapture::has_room(std::span<const fabric::Hop> hops, std::size_t payload_bytes,
                          std::size_t packets) {
  const std::size_t record = hca::kMaxRecordHeaderBytes + payload_bytes;
  return taps_.with_room(hops, packets * host::TapSet::bytes_for(record), [] {});
}

void MadCapture::show(const fabric::Hop& hop, const carriage::PacketOnCable& mad) {
  if (mad.omni_path != nullptr) {
    missed_ += taps_.show({&hop, 1}, {}, {&mad.bytes, 1}, host::TapFormat::OmniPath16b) ? 0 : 1;
    return;
  }
  show(taps_, hop, packet_of(mad, tables_.gids(mad.source).front()));
}

void MadCapture::show(fabric::PortIndex physical, const sriov::TunnelDatagram& mad) {
  hca::Packet packet = packet_of(mad, tables_.port(physical).lid);
  Psn& psn = tunnel_psns_[{physical, mad.source_qp}];
  packet.header.psn = psn;
  ++psn;
  const fabric::Hop hop = mad.is_to_function ? fabric::Hop{fabric::kNoPort, physical}
                                             : fabric::Hop{physical, fabric::kNoPort};
  show(tunnel_taps_, hop, packet);
}

void MadCapture::show(host::TapSet& taps, const fabric::Hop& hop, const hca::Packet& packet) {
  std::array<std::byte, hca::kMaxRecordHeaderBytes> head;
  const std::size_t head_bytes = hca::encode_record_header(packet.header, head);
  missed_ += taps.show({&hop, 1}, ByteSpan{head}.first(head_bytes), {&packet.payload, 1}) ? 0 : 1;
}

}  // namespace weft::daemon
