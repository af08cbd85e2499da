#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "base/result.h"
#include "wire/grh.h"
#include "wire/lrh.h"
#include "wire/transport_headers.h"

namespace weft::wire {

/// An InfiniBand packet as on a link, LRH through VCRC (IBTA vol 1 §5.2). Lengths, pad count and
/// CRCs are computed on serialization and not stored; `payload` excludes the pad.
struct IbPacket {
  Lrh lrh;
  std::optional<Grh> grh;
  TransportHeaders transport;
  std::span<const std::byte> payload;
};

/// Length from LRH through ICRC in bytes; PktLen counts the same in dwords.
[[nodiscard]] std::size_t link_bytes(const IbPacket& packet);

/// Serializes the packet with ICRC and VCRC. Replaces the contents of `out`, reusing its storage.
void serialise(const IbPacket& packet, std::vector<std::byte>& out);

/// Which checks a receiver performs.
enum class CrcCheck : bool { Skip, Verify };

/// Dissects a packet, LRH through VCRC; `payload` points into `bytes`. Fails, naming the field, for
/// inconsistent lengths, unsupported versions, next headers and opcodes, payload sizes that the
/// opcode does not permit, and (Verify) wrong CRCs.
[[nodiscard]] Result<IbPacket> parse_ib_packet(std::span<const std::byte> bytes, CrcCheck check);

/// The CRCs that a packet must have.
struct PacketCrcs {
  std::array<std::byte, 4> icrc;
  std::array<std::byte, 2> vcrc;
};

/// The correct CRCs of `bytes`, of which `packet` is the result of parse_ib_packet. The VCRC covers
/// the ICRC as received.
[[nodiscard]] PacketCrcs expected_crcs(const IbPacket& packet, std::span<const std::byte> bytes);

}  // namespace weft::wire
