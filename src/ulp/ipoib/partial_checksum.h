#pragma once

// Between two ends that are both ours, a packet over a connection need not have a complete
// checksum: its host has summed the pseudo header, as a stack leaves it to an interface (virtio 1.2
// §5.1.6), and the receiving host takes it so. RFC 4755 knows nothing of it: each end says in its
// private data that it takes such packets (connection_data.h), and the octets of the header that
// RFC 4391 §6 reserves say of each packet where its checksum is. A sender completes what a capture
// is to show.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::ipoib {

/// What is summed starts so many octets behind the first of the IP packet, and reaches to its end;
/// the field is so many behind that. Zeros: the checksum is complete.
struct PartialChecksum {
  std::uint8_t start{};
  std::uint8_t at{};
  bool operator==(const PartialChecksum&) const = default;

  [[nodiscard]] constexpr bool is_complete() const { return start == 0 && at == 0; }
  /// The field lies in a packet of that length, behind a header of IP.
  [[nodiscard]] constexpr bool fits(std::size_t packet_bytes) const {
    constexpr std::size_t kLeastIpHeader = 20;
    return start >= kLeastIpHeader &&
           std::size_t{start} + at + sizeof(std::uint16_t) <= packet_bytes;
  }
};

/// The header of a packet over such a connection.
struct ConnectedEncapsulation {
  static constexpr std::string_view kName = "IPoIB with a partial checksum";

  std::uint16_t type{};
  std::uint8_t checksum_start{};
  std::uint8_t checksum_at{};
  bool operator==(const ConnectedEncapsulation&) const = default;

  // clang-format off
  using Wire = wire::Layout<4,
      wire::Field<"Type",          16, &ConnectedEncapsulation::type>,
      wire::Field<"ChecksumStart",  8, &ConnectedEncapsulation::checksum_start>,
      wire::Field<"ChecksumAt",     8, &ConnectedEncapsulation::checksum_at>>;
  // clang-format on
};

}  // namespace weft::ipoib
