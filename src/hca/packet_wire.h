#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "hca/packet.h"
#include "wire/ib_packet.h"

namespace weft::hca {

/// The bytes of one packet (not a train) as they are on a link, LRH through VCRC. The virtual lane
/// is 15 for a datagram to QP0 (IBTA vol 1 §7.6.1), else 0.
void to_wire(const Packet& single, std::vector<std::byte>& out);

/// The parsed form of a packet from a link. The payload points into `bytes`; CRCs are verified.
[[nodiscard]] Result<Packet> from_wire(std::span<const std::byte> bytes);

}  // namespace weft::hca
