#pragma once

// IPv4 packets in fragments (RFC 791 §3.2). An interface of connected mode has a longer MTU than
// some that it sends to (RFC 4755 §5.1): those in datagram mode, groups, and ends of connections
// that receive less. Whoever sends into a link that is narrower than its own fragments, unless the
// sender forbids it; of that the sender is told (ulp/ipoib/too_big.h), who need not understand the
// same of a packet that may be fragmented (RFC 1191 §4). Pure; input is not trusted.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace weft::ipoib {

/// The packet in pieces of at most `mtu` octets, in order; one that is no longer as it is. Empty:
/// it may not be fragmented (DF, IPv6), is no IP packet, or has options that contradict its header.
[[nodiscard]] std::vector<std::vector<std::byte>> fragments_of(ByteSpan packet, std::uint32_t mtu);

}  // namespace weft::ipoib
