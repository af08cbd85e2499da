#include "host/tap_set.h"

#include <algorithm>
#include <cstring>
#include <mutex>
#include <utility>

#include "host/clock.h"

namespace weft::host {

void TapSet::open(std::uint32_t capture, std::uint32_t port, Mapping memory) {
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

bool TapSet::show(std::span<const fabric::Hop> hops, ByteSpan record_header,
                  std::span<const ByteSpan> payload) {
  const std::size_t payload_bytes = total_bytes(payload);
  const std::lock_guard guard{lock_};
  writes_.clear();
  for (const auto& tap : taps_) {
    for (const fabric::Hop& hop : hops) {
      const bool is_out = hop.egress.value() == tap->port;
      if (!is_out && hop.ingress.value() != tap->port) {
        continue;
      }
      const MutableByteSpan room =
          tap->producer.reserve(sizeof(TapRecord) + record_header.size() + payload_bytes);
      if (room.empty()) {
        return false;
      }
      writes_.push_back({tap.get(), is_out ? TapDirection::Out : TapDirection::In, room});
      break;  // a path crosses a port once
    }
  }
  const std::int64_t time = time_of_day().nanoseconds();
  for (const Write& write : writes_) {
    const TapRecord record{
        .time_of_day_ns = time, .port = write.tap->port, .direction = write.direction};
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
  return true;
}

}  // namespace weft::host
