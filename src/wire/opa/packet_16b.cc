#include "wire/opa/packet_16b.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/assert.h"
#include "wire/crc.h"

namespace weft::wire {
namespace {

constexpr std::size_t kOverhead = kSizeOf<Opa16bHeader> + kOpaIcrcBytes + kOpaTailBytes;
constexpr std::byte kPadMask{0x07};

/// The CRC-32 of InfiniBand's invariant CRC over header, frame and padding. What switches change is
/// taken as ones: BECN, FECN, SC and age. That choice is policy: Omni-Path's own is not public.
[[nodiscard]] std::array<std::byte, kOpaIcrcBytes> icrc_of(Opa16bHeader header, ByteSpan rest) {
  header.becn = true;
  header.fecn = true;
  header.service_channel = 0x1F;
  header.age = 0xFF;
  Icrc crc;
  crc.add(pack(header));
  crc.add(rest);
  return crc.bytes();
}

}  // namespace

std::vector<std::byte> to_opa_packet(Opa16bHeader header, ByteSpan frame) {
  WEFT_ASSERT(frame.size() <= kMaxOpaFrameBytes, "the sender has compared the frame with the MTU");
  const std::size_t pad =
      (kOpaUnitBytes - (kOverhead + frame.size()) % kOpaUnitBytes) % kOpaUnitBytes;
  std::vector<std::byte> packet(kOverhead + frame.size() + pad);
  header.length_units = static_cast<std::uint16_t>(packet.size() / kOpaUnitBytes);
  const std::span<std::byte> whole{packet};
  pack(header, whole.first<kSizeOf<Opa16bHeader>>());
  const auto body = whole.subspan(kSizeOf<Opa16bHeader>, frame.size() + pad);
  copy_bytes(body, frame);
  copy_bytes(whole.subspan(kSizeOf<Opa16bHeader> + body.size()), icrc_of(header, body));
  packet.back() = static_cast<std::byte>(pad);
  return packet;
}

Result<OpaEthernetPacket> parse_opa_ethernet(ByteSpan packet) {
  auto header = parse<Opa16bHeader>(packet);
  if (!header) {
    return std::unexpected(header.error());
  }
  if (header->l2_type != kOpaL2Type16b || !header->is_last_flit_type) {
    return fail(ErrorCode::Io, "L2 type {} is not 16B", header->l2_type);
  }
  if (header->l4_type != kOpaL4Ethernet) {
    return fail(ErrorCode::Io, "L4 type {:#x} is not Ethernet", header->l4_type);
  }
  if (packet.size() != std::size_t{header->length_units} * kOpaUnitBytes) {
    return fail(ErrorCode::Io, "a packet of {} bytes says that it has {} units of 8", packet.size(),
                header->length_units);
  }
  const auto pad = std::to_integer<std::size_t>(packet.back() & kPadMask);
  if (packet.size() < kOverhead + pad) {
    return fail(ErrorCode::Io, "{} bytes have no room for {} of padding", packet.size(), pad);
  }
  const ByteSpan body = packet.subspan(kSizeOf<Opa16bHeader>, packet.size() - kOverhead);
  const ByteSpan icrc = packet.last(kOpaIcrcBytes + kOpaTailBytes).first(kOpaIcrcBytes);
  return OpaEthernetPacket{.header = *header,
                           .frame = body.first(body.size() - pad),
                           .has_valid_icrc = std::ranges::equal(icrc, icrc_of(*header, body))};
}

std::optional<std::uint16_t> vesw_id_of(ByteSpan packet) {
  const auto header = parse<Opa16bHeader>(packet);
  return header ? std::optional{header->vesw_id} : std::nullopt;
}

}  // namespace weft::wire
