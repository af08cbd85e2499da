#pragma once

// What a process writes to a capture ring for each packet or train that crosses a captured port.
// The reader generates the bytes on the wire, including CRCs, so they cost the sender nothing.

#include <cstddef>
#include <cstdint>

namespace weft::host {

enum class TapDirection : std::uint8_t { Out = 0, In = 1 };  // seen from the captured port

/// What follows a TapRecord.
enum class TapFormat : std::uint8_t {
  InfiniBand = 0,   // a ring record (hca/packet_record.h), of which the reader makes the packets
  OmniPath16b = 1,  // a 16B packet, whole
};

/// Native-endian.
struct TapRecord {
  std::int64_t time_of_day_ns{};
  std::uint32_t port{};  // index in the tables
  TapDirection direction{};
  TapFormat format{};
  std::uint8_t reserved[2]{};
  std::uint32_t missed{};  // packets that are not in the ring, between the one before and this one
  std::uint8_t reserved2[4]{};
};
static_assert(sizeof(TapRecord) == 24);

/// Policy: lets a reader be unscheduled for some milliseconds without blocking senders.
inline constexpr std::size_t kTapRingCapacity = 1U << 20;

}  // namespace weft::host
