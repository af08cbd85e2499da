#include "host/tap_set.h"

#include <algorithm>
#include <cstring>
#include <utility>

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
}

void TapSet::close(std::uint32_t capture) {
  const std::lock_guard guard{lock_};
  std::erase_if(taps_, [&](const auto& tap) { return tap->capture == capture; });
}

/// None: the path does not cross its port. It crosses a port once.
std::optional<TapDirection> TapSet::direction_at(const Tap& tap,
                                                 std::span<const fabric::Hop> hops) {
  for (const fabric::Hop& hop : hops) {
    if (hop.egress.value() == tap.port) {
      return TapDirection::Out;
    }
    if (hop.ingress.value() == tap.port) {
      return TapDirection::In;
    }
  }
  return std::nullopt;
}

/// That each capture which sees the packet has room for it, or a reader that has stopped.
bool TapSet::find_room(std::span<const fabric::Hop> hops, std::size_t bytes) {
  return std::ranges::all_of(taps_, [&](const auto& tap) {
    return !direction_at(*tap, hops) || has_room(*tap, bytes) || tap->has_stopped;
  });
}

/// Who finds none looks at the clock, from the first time on.
bool TapSet::has_room(Tap& tap, std::size_t bytes) const {
  const bool has_room = !tap.producer.reserve(bytes).empty();
  if (has_room) {
    tap.full_since = Instant::never();
    tap.has_stopped = false;
  } else if (!tap.has_stopped) {
    const Instant now = os::now();
    tap.full_since = std::min(tap.full_since, now);
    tap.has_stopped = now - tap.full_since >= patience_;
  }
  return has_room;
}

bool TapSet::show(std::span<const fabric::Hop> hops, ByteSpan record_header,
                  std::span<const ByteSpan> payload, TapFormat format) {
  const std::size_t bytes = sizeof(TapRecord) + record_header.size() + total_bytes(payload);
  return with_room(hops, bytes, [&] { capture_now(hops, record_header, payload, format); });
}

void TapSet::capture_now(std::span<const fabric::Hop> hops, ByteSpan record_header,
                         std::span<const ByteSpan> payload, TapFormat format) {
  const std::size_t bytes = sizeof(TapRecord) + record_header.size() + total_bytes(payload);
  const std::int64_t time = os::time_of_day().nanoseconds();
  for (const auto& tap : taps_) {
    const auto direction = direction_at(*tap, hops);
    if (!direction) {
      continue;
    }
    MutableByteSpan to = tap->has_stopped ? MutableByteSpan{} : tap->producer.reserve(bytes);
    if (to.empty()) {  // or the reader has taken back the room that the caller found
      ++tap->missed;
      continue;
    }
    const TapRecord record{.time_of_day_ns = time,
                           .port = tap->port,
                           .direction = *direction,
                           .format = format,
                           .missed = std::exchange(tap->missed, 0)};
    const auto put = [&to](ByteSpan from) {
      copy_bytes(to, from);
      to = to.subspan(from.size());
    };
    put(bytes_of(record));
    put(record_header);
    std::ranges::for_each(payload, put);
    tap->producer.commit();
  }
}

}  // namespace weft::host
