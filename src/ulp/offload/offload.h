#pragma once

// What the IP stack of a host leaves to its interface of a packet that it sends, and what the
// interface may leave to the stack of one that it hands over: a checksum that is not complete yet,
// and TCP data for several packets in one. As a TUN has it before each packet (`struct
// virtio_net_hdr`, virtio 1.2 §5.1.6). Values without behaviour or threading rule.

#include <cstddef>
#include <cstdint>

namespace weft::offload {

enum class Segments : std::uint8_t { One, TcpIpv4, TcpIpv6 };

struct Offload {
  /// The checksum field has the sum of the pseudo header so far.
  bool needs_checksum{};
  Segments segments{Segments::One};
  std::uint16_t header_bytes{};    ///< before the data: of the frame, IP and TCP
  std::uint16_t segment_bytes{};   ///< data of each packet, less in the last
  std::uint16_t checksum_start{};  ///< what is summed, to the end: the TCP or UDP header
  std::uint16_t checksum_at{};     ///< the field, from there
  bool operator==(const Offload&) const = default;
};

}  // namespace weft::offload
