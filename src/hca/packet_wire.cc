#include "hca/packet_wire.h"

#include "base/assert.h"

namespace weft::hca {

void to_wire(const Packet& single, std::vector<std::byte>& out) {
  const PacketHeader& header = single.header;
  WEFT_DEBUG_ASSERT(header.packet_count == 1, "a train is split before it is written as octets");
  wire::IbPacket packet;
  const bool is_subnet_management =
      header.dest_qp == kQp0 && header.opcode == wire::Opcode::UdSendOnly;
  packet.lrh.vl = VirtualLane{is_subnet_management ? std::uint8_t{15} : std::uint8_t{0}};
  packet.lrh.sl = header.sl;
  packet.lrh.slid = header.slid;
  packet.lrh.dlid = header.dlid;
  if (header.has_grh) {
    packet.grh = header.grh;
  }
  wire::TransportHeaders& transport = packet.transport;
  transport.bth = {.opcode = header.opcode,
                   .solicited = header.solicited,
                   .migrated = header.migrated,
                   .pad_count = 0,
                   .transport_version = 0,
                   .pkey = header.pkey,
                   .fecn = false,
                   .becn = false,
                   .dest_qp = header.dest_qp,
                   .ack_request = header.ack_request,
                   .psn = header.psn};
  const wire::ExtensionHeaders extensions = wire::opcode_info(header.opcode)->headers;
  if (extensions.has(wire::ExtensionHeader::Reth)) {
    transport.reth = header.extension.reth;
  }
  if (extensions.has(wire::ExtensionHeader::Feth)) {
    transport.feth = header.extension.flush.feth;
  }
  if (extensions.has(wire::ExtensionHeader::AtomicEth)) {
    transport.atomic_eth = header.extension.atomic_eth;
  }
  if (extensions.has(wire::ExtensionHeader::Deth)) {
    transport.deth = header.extension.deth;
  }
  if (extensions.has(wire::ExtensionHeader::Aeth)) {
    transport.aeth = header.extension.response.aeth;
  }
  if (extensions.has(wire::ExtensionHeader::AtomicAckEth)) {
    transport.atomic_ack_eth = header.extension.response.atomic_ack;
  }
  transport.xrceth.xrc_srqn = header.xrc_srqn;
  transport.immdt.immediate = header.immediate_or_rkey;
  transport.ieth.rkey = RKey{header.immediate_or_rkey};
  packet.payload = single.payload;
  wire::serialise(packet, out);
}

Result<Packet> from_wire(std::span<const std::byte> bytes) {
  const auto parsed = wire::parse_ib_packet(bytes, wire::CrcCheck::Verify);
  if (!parsed) {
    return std::unexpected(parsed.error());
  }
  Packet packet;
  PacketHeader& header = packet.header;
  const wire::TransportHeaders& transport = parsed->transport;
  header.opcode = header.last_opcode = transport.bth.opcode;
  header.solicited = transport.bth.solicited;
  header.ack_request = transport.bth.ack_request;
  header.migrated = transport.bth.migrated;
  header.sl = parsed->lrh.sl;
  header.slid = parsed->lrh.slid;
  header.dlid = parsed->lrh.dlid;
  header.pkey = transport.bth.pkey;
  header.dest_qp = transport.bth.dest_qp;
  header.psn = transport.bth.psn;
  header.has_grh = parsed->grh.has_value();
  if (parsed->grh) {
    header.grh = *parsed->grh;
  }
  const wire::ExtensionHeaders extensions = wire::opcode_info(header.opcode)->headers;
  if (extensions.has(wire::ExtensionHeader::Feth)) {
    header.extension.flush = {.reth = transport.reth, .feth = transport.feth};
  } else if (extensions.has(wire::ExtensionHeader::Reth)) {
    header.extension.reth = transport.reth;
  } else if (extensions.has(wire::ExtensionHeader::AtomicEth)) {
    header.extension.atomic_eth = transport.atomic_eth;
  } else if (extensions.has(wire::ExtensionHeader::Deth)) {
    header.extension.deth = transport.deth;
  } else if (extensions.has(wire::ExtensionHeader::Aeth)) {
    header.extension.response = {.aeth = transport.aeth, .atomic_ack = transport.atomic_ack_eth};
  }
  header.immediate_or_rkey = extensions.has(wire::ExtensionHeader::Ieth)
                                 ? transport.ieth.rkey.value()
                                 : transport.immdt.immediate;
  header.xrc_srqn = transport.xrceth.xrc_srqn;
  packet.payload = parsed->payload;
  return packet;
}

}  // namespace weft::hca
