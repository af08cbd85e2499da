#pragma once

// Which multicast groups the host's IP stack listens to, as its own IGMP and MLD messages say on
// their way out: a TUN has no other way to tell. Pure; input is not trusted.

#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"

namespace weft::ipoib {

/// What a report says of a group.
struct Listening {
  IpAddress group{};
  bool is_member{};
  bool operator==(const Listening&) const = default;
};

/// Policy: a longer report is read so far.
inline constexpr std::size_t kMaxReportedGroups = 256;

/// The groups of an IGMP report or leave (versions 1 to 3: RFC 1112, RFC 2236 §2, RFC 3376 §4.2) or
/// of an MLD report or done (RFC 2710 §3, RFC 3810 §5.2) in an IP packet. None: it is neither, or
/// it is cut off.
[[nodiscard]] std::vector<Listening> listenings_of(ByteSpan ip_packet);

/// The addresses of an IP packet.
struct IpEnds {
  IpAddress source{};
  IpAddress destination{};
};
/// None: neither IPv4 nor IPv6, or shorter than its header says.
[[nodiscard]] std::optional<IpEnds> ends_of(ByteSpan ip_packet);

}  // namespace weft::ipoib
