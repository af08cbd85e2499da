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

/// One InfiniBand packet as it is on a link, LRH through VCRC (IBTA vol 1 §5.2). Lengths, pad count
/// and CRCs are made when bytes are, so they are not fields of the meaning; `payload` is without
/// pad.
struct IbPacket {
  Lrh lrh;
  std::optional<Grh> grh;
  TransportHeaders transport;
  std::span<const std::byte> payload;
};

/// Bytes LRH through ICRC, which is what PktLen counts in dwords.
[[nodiscard]] std::size_t link_bytes(const IbPacket& packet);

/// The packet's bytes, ICRC and VCRC included. `out` is replaced; its storage is reused.
void serialise(const IbPacket& packet, std::vector<std::byte>& out);

/// How much a receiver looks at.
enum class CrcCheck : bool { Skip, Verify };

/// Dissects a packet LRH..VCRC; `payload` points into `bytes`. Refuses, with the field that is
/// wrong: lengths that do not add up, versions, next headers, opcodes, payload sizes that the
/// opcode forbids, and (Verify) wrong CRCs.
[[nodiscard]] Result<IbPacket> parse_ib_packet(std::span<const std::byte> bytes, CrcCheck check);

/// The CRCs as they should stand in a packet.
struct PacketCrcs {
  std::array<std::byte, 4> icrc;
  std::array<std::byte, 2> vcrc;
};

/// The CRCs that `bytes` should end with, of which parse_ib_packet made `packet`. The VCRC is over
/// the ICRC that is there.
[[nodiscard]] PacketCrcs expected_crcs(const IbPacket& packet, std::span<const std::byte> bytes);

}  // namespace weft::wire
