#include "wire/ib_packet.h"

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "base/bytes.h"
#include "wire/crc.h"

namespace weft::wire {
namespace {

constexpr std::size_t kIcrcBytes = 4;
constexpr std::size_t kVcrcBytes = 2;
constexpr std::size_t kBthResv8a = 4;  // byte of the BTH that the ICRC replaces by ones
constexpr std::byte kOnes{0xFF};

[[nodiscard]] std::size_t pad_bytes(std::size_t payload) { return (4 - payload % 4) % 4; }

/// ICRC over LRH through pad, with variant fields replaced by ones (IBTA vol 1 §7.8.1).
[[nodiscard]] std::array<std::byte, 4> icrc_of(std::span<const std::byte> packet, bool has_grh) {
  std::array<std::byte, kSizeOf<Lrh> + kSizeOf<Grh> + kSizeOf<Bth>> head{};
  const std::size_t head_bytes = kSizeOf<Lrh> + (has_grh ? kSizeOf<Grh> : 0) + kSizeOf<Bth>;
  std::copy_n(packet.begin(), head_bytes, head.begin());
  if (has_grh) {
    std::fill_n(head.begin(), kSizeOf<Lrh>, kOnes);
    std::byte* const grh = head.data() + kSizeOf<Lrh>;
    grh[0] |= std::byte{0x0F};  // TClass and FlowLabel
    grh[1] = grh[2] = grh[3] = kOnes;
    grh[7] = kOnes;  // HopLmt
  } else {
    head[0] |= std::byte{0xF0};  // VL
  }
  head[head_bytes - kSizeOf<Bth> + kBthResv8a] = kOnes;
  Icrc icrc;
  icrc.add(std::span{head}.first(head_bytes));
  icrc.add(packet.subspan(head_bytes));
  return icrc.bytes();
}

Result<void> check_payload(const OpcodeInfo& info, std::size_t payload) {
  if (info.payload == PayloadRule::None && payload != 0) {
    return fail(ErrorCode::Io, "{} carries no payload, but has {} bytes", info.name, payload);
  }
  if ((info.payload == PayloadRule::OneToMtu || info.payload == PayloadRule::FullMtu) &&
      payload == 0) {
    return fail(ErrorCode::Io, "{} needs a payload", info.name);
  }
  return {};
}

}  // namespace

std::size_t link_bytes(const IbPacket& packet) {
  const OpcodeInfo* info = opcode_info(packet.transport.bth.opcode);
  WEFT_DEBUG_ASSERT(info != nullptr, "the opcode exists");
  return kSizeOf<Lrh> + (packet.grh ? kSizeOf<Grh> : 0) + transport_header_bytes(*info) +
         packet.payload.size() + pad_bytes(packet.payload.size()) + kIcrcBytes;
}

void serialise(const IbPacket& packet, std::vector<std::byte>& out) {
  const std::size_t total = link_bytes(packet);
  const std::size_t pad = pad_bytes(packet.payload.size());
  out.assign(total + kVcrcBytes, std::byte{0});
  const std::span<std::byte> bytes{out};

  Lrh lrh = packet.lrh;
  lrh.lnh = packet.grh ? LinkNextHeader::Global : LinkNextHeader::Local;
  lrh.packet_length = static_cast<std::uint16_t>(total / 4);
  pack(lrh, bytes.first<kSizeOf<Lrh>>());
  std::size_t at = kSizeOf<Lrh>;
  if (packet.grh) {
    Grh grh = *packet.grh;
    grh.payload_length = static_cast<std::uint16_t>(total - kSizeOf<Lrh> - kSizeOf<Grh>);
    pack(grh, bytes.subspan(at).first<kSizeOf<Grh>>());
    at += kSizeOf<Grh>;
  }
  TransportHeaders transport = packet.transport;
  transport.bth.pad_count = static_cast<std::uint8_t>(pad);
  at += pack(transport, bytes.subspan(at));
  copy_bytes(bytes.subspan(at), packet.payload);
  const auto icrc = icrc_of(bytes.first(total - kIcrcBytes), packet.grh.has_value());
  std::ranges::copy(icrc, bytes.begin() + static_cast<std::ptrdiff_t>(total - kIcrcBytes));
  Vcrc vcrc;
  vcrc.add(bytes.first(total));
  std::ranges::copy(vcrc.bytes(), bytes.begin() + static_cast<std::ptrdiff_t>(total));
}

PacketCrcs expected_crcs(const IbPacket& packet, std::span<const std::byte> bytes) {
  WEFT_DEBUG_ASSERT(bytes.size() == link_bytes(packet) + kVcrcBytes,
                    "the packet's length was asked for");
  const std::size_t total = bytes.size() - kVcrcBytes;
  Vcrc vcrc;
  vcrc.add(bytes.first(total));
  return {.icrc = icrc_of(bytes.first(total - kIcrcBytes), packet.grh.has_value()),
          .vcrc = vcrc.bytes()};
}

Result<IbPacket> parse_ib_packet(std::span<const std::byte> bytes, CrcCheck check) {
  IbPacket packet;
  const auto lrh = parse<Lrh>(bytes);
  if (!lrh) {
    return std::unexpected(lrh.error());
  }
  packet.lrh = *lrh;
  if (lrh->link_version != 0) {
    return fail(ErrorCode::Io, "LRH LVer is {}, not 0", lrh->link_version);
  }
  const std::size_t total = std::size_t{lrh->packet_length} * 4;
  if (total + kVcrcBytes != bytes.size() || total < kSizeOf<Lrh> + kSizeOf<Bth> + kIcrcBytes) {
    return fail(ErrorCode::Io, "LRH PktLen implies {} bytes and a VCRC, the packet has {} bytes",
                total, bytes.size());
  }
  if (lrh->lnh != LinkNextHeader::Local && lrh->lnh != LinkNextHeader::Global) {
    return fail(ErrorCode::Io, "LRH LNH {}: raw packets are not carried",
                static_cast<unsigned>(lrh->lnh));
  }
  std::size_t at = kSizeOf<Lrh>;
  if (lrh->lnh == LinkNextHeader::Global) {
    const auto grh = parse<Grh>(bytes.first(total).subspan(at));
    if (!grh) {
      return std::unexpected(grh.error());
    }
    if (grh->ip_version != 6 || grh->next_header != 0x1B) {
      return fail(ErrorCode::Io, "GRH IPVer {} and NxtHdr {:#x}, not 6 and 0x1b", grh->ip_version,
                  grh->next_header);
    }
    if (grh->payload_length != total - kSizeOf<Lrh> - kSizeOf<Grh>) {
      return fail(ErrorCode::Io, "GRH PayLen is {}, the packet has {}", grh->payload_length,
                  total - kSizeOf<Lrh> - kSizeOf<Grh>);
    }
    packet.grh = *grh;
    at += kSizeOf<Grh>;
    if (total < at + kSizeOf<Bth> + kIcrcBytes) {
      return fail(ErrorCode::Io, "{} bytes after the GRH are too few for a BTH and an ICRC",
                  total - at);
    }
  }
  const auto transport = parse_transport_headers(bytes.first(total - kIcrcBytes).subspan(at));
  if (!transport) {
    return std::unexpected(transport.error());
  }
  packet.transport = *transport;
  if (transport->bth.transport_version != 0) {
    return fail(ErrorCode::Io, "BTH TVer is {}, not 0", transport->bth.transport_version);
  }
  const OpcodeInfo& info = *opcode_info(transport->bth.opcode);
  at += transport_header_bytes(info);
  const std::size_t padded = total - kIcrcBytes - at;
  if (transport->bth.pad_count > padded) {
    return fail(ErrorCode::Io, "BTH PadCnt is {}, the payload with pad has {} bytes",
                transport->bth.pad_count, padded);
  }
  packet.payload = bytes.subspan(at, padded - transport->bth.pad_count);
  if (auto allowed = check_payload(info, packet.payload.size()); !allowed) {
    return std::unexpected(allowed.error());
  }
  if (check == CrcCheck::Verify) {
    const PacketCrcs expected = expected_crcs(packet, bytes);
    if (!std::ranges::equal(expected.icrc, bytes.subspan(total - kIcrcBytes, kIcrcBytes))) {
      return fail(ErrorCode::Io, "the ICRC is wrong");
    }
    if (!std::ranges::equal(expected.vcrc, bytes.last(kVcrcBytes))) {
      return fail(ErrorCode::Io, "the VCRC is wrong");
    }
  }
  return packet;
}

}  // namespace weft::wire
