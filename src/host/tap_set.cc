#include "host/tap_set.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/assert.h"
#include "os/clock.h"

namespace weft::host {

void TapSet::open(std::uint32_t capture, std::uint32_t port, os::Mapping memory) {
  auto tap = std::make_unique<Tap>();
  tap->capture = capture;
  tap->port = port;
  tap->producer = ring::Producer<>{memory.bytes()};
  tap->memory = std::move(memory);
  const std::lock_guard guard{lock_};
  taps_.push_back(std::move(tap));
  writes_.reserve(taps_.size());
}

void TapSet::close(std::uint32_t capture) {
  const std::lock_guard guard{lock_};
  std::erase_if(taps_, [&](const auto& tap) { return tap->capture == capture; });
}

/// Reserves room for one record in each capture that sees the packet, in writes_.
bool TapSet::reserve(std::span<const fabric::Hop> hops, std::size_t bytes) {
  writes_.clear();
  for (const auto& tap : taps_) {
    for (const fabric::Hop& hop : hops) {
      const bool is_out = hop.egress.value() == tap->port;
      if (!is_out && hop.ingress.value() != tap->port) {
        continue;
      }
      const MutableByteSpan room = tap->producer.reserve(bytes);
      if (room.empty()) {
        return false;
      }
      writes_.push_back({tap.get(), is_out ? TapDirection::Out : TapDirection::In, room});
      break;  // a path crosses a port once
    }
  }
  return true;
}

bool TapSet::show(std::span<const fabric::Hop> hops, ByteSpan record_header,
                  std::span<const ByteSpan> payload, TapFormat format) {
  const std::size_t bytes = sizeof(TapRecord) + record_header.size() + total_bytes(payload);
  return with_room(hops, bytes, [&] { capture_now(hops, record_header, payload, format); });
}

void TapSet::capture_now(std::span<const fabric::Hop> hops, ByteSpan record_header,
                         std::span<const ByteSpan> payload, TapFormat format) {
  [[maybe_unused]] const bool has_room =
      reserve(hops, sizeof(TapRecord) + record_header.size() + total_bytes(payload));
  WEFT_DEBUG_ASSERT(has_room, "the caller looked for room");
  const std::int64_t time = os::time_of_day().nanoseconds();
  for (const Write& write : writes_) {
    const TapRecord record{.time_of_day_ns = time,
                           .port = write.tap->port,
                           .direction = write.direction,
                           .format = format};
    MutableByteSpan to = write.room;
    const auto put = [&to](ByteSpan from) {
      copy_bytes(to, from);
      to = to.subspan(from.size());
    };
    put(bytes_of(record));
    put(record_header);
    std::ranges::for_each(payload, put);
    write.tap->producer.commit();
  }
}

}  // namespace weft::host
