#include "wire/opa/packet_16b.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/assert.h"
#include "wire/crc.h"

namespace weft::wire {
namespace {

constexpr std::size_t kOverhead = kOpaLinkHeaderBytes + kOpaIcrcBytes + kOpaTailBytes;
constexpr std::byte kPadMask{0x07};

/// The CRC-32 of InfiniBand's invariant CRC over link header, content and padding. What switches
/// change is taken as ones: BECN, FECN, SC and age. That choice is policy: Omni-Path's own is not
/// public.
[[nodiscard]] std::array<std::byte, kOpaIcrcBytes> icrc_of(Opa16bHeader header, ByteSpan rest) {
  header.becn = true;
  header.fecn = true;
  header.service_channel = 0x1F;
  header.age = 0xFF;
  const auto packed = pack(header);
  Icrc crc;
  crc.add(ByteSpan{packed}.first(kOpaLinkHeaderBytes));
  crc.add(rest);
  return crc.bytes();
}

[[nodiscard]] std::uint32_t number_of(ByteSpan octets) {
  std::uint32_t number = 0;
  for (const std::byte octet : octets) {
    number = number << 8 | std::to_integer<std::uint32_t>(octet);
  }
  return number;
}

}  // namespace

std::vector<std::byte> to_opa_16b(Opa16bHeader header, ByteSpan content, ByteSpan more) {
  const std::size_t bytes = content.size() + more.size();
  WEFT_ASSERT(bytes <= kMaxOpaContentBytes, "the sender has compared it with the MTU");
  const std::size_t pad = (kOpaUnitBytes - (kOverhead + bytes) % kOpaUnitBytes) % kOpaUnitBytes;
  std::vector<std::byte> packet(kOverhead + bytes + pad);
  header.length_units = static_cast<std::uint16_t>(packet.size() / kOpaUnitBytes);
  const std::span<std::byte> whole{packet};
  const auto packed = pack(header);
  copy_bytes(whole, ByteSpan{packed}.first(kOpaLinkHeaderBytes));
  const auto body = whole.subspan(kOpaLinkHeaderBytes, bytes + pad);
  copy_bytes(body, content);
  copy_bytes(body.subspan(content.size()), more);
  copy_bytes(whole.subspan(kOpaLinkHeaderBytes + body.size()), icrc_of(header, body));
  packet.back() = static_cast<std::byte>(pad);
  return packet;
}

Result<Opa16bPacket> parse_opa_16b(ByteSpan packet) {
  auto header = parse<Opa16bHeader>(packet);
  if (!header) {
    return std::unexpected(header.error());
  }
  if (header->l2_type != kOpaL2Type16b || !header->is_last_flit_type) {
    return fail(ErrorCode::Io, "L2 type {} is not 16B", header->l2_type);
  }
  if (packet.size() != std::size_t{header->length_units} * kOpaUnitBytes) {
    return fail(ErrorCode::Io, "a packet of {} bytes says that it has {} units of 8", packet.size(),
                header->length_units);
  }
  const auto pad = std::to_integer<std::size_t>(packet.back() & kPadMask);
  if (packet.size() < kOverhead + pad) {
    return fail(ErrorCode::Io, "{} bytes have no room for {} of padding", packet.size(), pad);
  }
  const ByteSpan body = packet.subspan(kOpaLinkHeaderBytes, packet.size() - kOverhead);
  if (header->l4_type != kOpaL4Ethernet) {
    header->vesw_id = 0;
  }
  return Opa16bPacket{
      .header = *header,
      .content = body.first(body.size() - pad),
      .pad_bytes = pad,
      .icrc = number_of(packet.last(kOpaIcrcBytes + kOpaTailBytes).first(kOpaIcrcBytes)),
      .expected_icrc = number_of(icrc_of(*header, body))};
}

std::vector<std::byte> to_opa_packet(Opa16bHeader header, ByteSpan frame) {
  WEFT_ASSERT(frame.size() <= kMaxOpaFrameBytes, "the sender has compared the frame with the MTU");
  const auto packed = pack(header);
  return to_opa_16b(header, ByteSpan{packed}.subspan(kOpaLinkHeaderBytes), frame);
}

Result<OpaEthernetPacket> parse_opa_ethernet(ByteSpan packet) {
  const auto parsed = parse_opa_16b(packet);
  if (!parsed) {
    return std::unexpected(parsed.error());
  }
  if (parsed->header.l4_type != kOpaL4Ethernet) {
    return fail(ErrorCode::Io, "L4 type {:#x} is not Ethernet", parsed->header.l4_type);
  }
  if (parsed->content.size() < kOpaEthernetHeaderBytes) {
    return fail(ErrorCode::Io, "{} bytes have no room for {} of padding", packet.size(),
                parsed->pad_bytes);
  }
  return OpaEthernetPacket{.header = parsed->header,
                           .frame = parsed->content.subspan(kOpaEthernetHeaderBytes),
                           .has_valid_icrc = parsed->has_valid_icrc()};
}

std::optional<std::uint16_t> vesw_id_of(ByteSpan packet) {
  const auto header = parse<Opa16bHeader>(packet);
  return header ? std::optional{header->vesw_id} : std::nullopt;
}

}  // namespace weft::wire
