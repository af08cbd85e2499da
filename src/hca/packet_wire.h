#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "hca/packet.h"
#include "wire/ib_packet.h"

namespace weft::hca {

/// Serialises one packet (not a train) as on a link, LRH through VCRC. The virtual lane is 15 for a
/// datagram to QP0 (IBTA vol 1 §7.6.1), else 0.
void to_wire(const Packet& single, std::vector<std::byte>& out);

/// Parses a packet as on a link and verifies its CRCs. The payload points into `bytes`.
[[nodiscard]] Result<Packet> from_wire(std::span<const std::byte> bytes);

}  // namespace weft::hca
