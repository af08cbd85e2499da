#pragma once

// What a process writes into a capture ring for each packet or train that crosses a tapped port.
// The reader makes the bytes of the wire from it, CRCs included: they cost a sender nothing.

#include <cstddef>
#include <cstdint>

namespace weft::host {

enum class TapDirection : std::uint8_t { Out = 0, In = 1 };  // of the port that is tapped

/// Followed by the ring record of the packet (hca/packet_record.h). Native-endian.
struct TapRecord {
  std::int64_t time_of_day_ns{};
  std::uint32_t port{};  // index in the tables
  TapDirection direction{};
  std::uint8_t reserved[3]{};
};
static_assert(sizeof(TapRecord) == 16);

/// Policy: enough that a reader who is not scheduled for some milliseconds stops nobody.
inline constexpr std::size_t kTapRingCapacity = 1U << 20;

}  // namespace weft::host
