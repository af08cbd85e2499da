#pragma once

// What a process writes to a capture ring for each packet or train that crosses a captured port.
// The reader generates the bytes on the wire, including CRCs, so they cost the sender nothing.

#include <cstddef>
#include <cstdint>

namespace weft::host {

enum class TapDirection : std::uint8_t { Out = 0, In = 1 };  // seen from the captured port

/// Followed by the packet's ring record (hca/packet_record.h). Native-endian.
struct TapRecord {
  std::int64_t time_of_day_ns{};
  std::uint32_t port{};  // index in the tables
  TapDirection direction{};
  std::uint8_t reserved[3]{};
};
static_assert(sizeof(TapRecord) == 16);

/// Policy: lets a reader be unscheduled for some milliseconds without blocking senders.
inline constexpr std::size_t kTapRingCapacity = 1U << 20;

}  // namespace weft::host
