#pragma once

// Messages of IPoIB address resolution, parsed from and built as packet payloads. Input is not
// trusted. Value types.

#include <optional>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "wire/ipoib/arp.h"
#include "wire/ipoib/encapsulation.h"
#include "wire/ipoib/hardware_address.h"
#include "wire/ipoib/neighbor_discovery.h"

namespace weft::wire {

/// An ARP request or reply (RFC 4391 §9.2).
struct ArpMessage {
  ArpOperation operation{};
  IpoibHardwareAddress sender_hardware{};
  IpAddress sender{};
  IpoibHardwareAddress target_hardware{};
  IpAddress target{};
  bool operator==(const ArpMessage&) const = default;
};

/// A neighbour solicitation or advertisement with its IPv6 header (RFC 4861 §4.3, §4.4).
struct NeighborMessage {
  NeighborMessageType type{};
  IpAddress source{};
  IpAddress destination{};
  IpAddress target{};
  Flags<NeighborFlag> flags{};
  /// Link-layer address of the source in a solicitation, of the target in an advertisement.
  std::optional<IpoibHardwareAddress> hardware{};
  bool operator==(const NeighborMessage&) const = default;
};

/// Any other payload: another EtherType, another IPv6 protocol, or another ICMPv6 message.
struct OtherIpoibMessage {
  std::uint16_t ether_type{};
  bool operator==(const OtherIpoibMessage&) const = default;
};

using IpoibMessage = std::variant<OtherIpoibMessage, ArpMessage, NeighborMessage>;

/// Parses a payload with encapsulation header. Fails for truncated messages, for ARP of other link
/// types or protocols, and for neighbour discovery that RFC 4861 §7.1 requires to be discarded.
[[nodiscard]] Result<IpoibMessage> parse_ipoib(ByteSpan payload);

[[nodiscard]] std::vector<std::byte> to_payload(const ArpMessage& message);
[[nodiscard]] std::vector<std::byte> to_payload(const NeighborMessage& message);

/// Internet checksum over an upper-layer packet and its pseudo-header (RFC 8200 §8.1); 0 if the
/// packet contains the correct checksum.
[[nodiscard]] std::uint16_t icmpv6_checksum(const IpAddress& source, const IpAddress& destination,
                                            ByteSpan message);

}  // namespace weft::wire
