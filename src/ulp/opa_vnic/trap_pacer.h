#pragma once

// When a virtual port may send its traps: few in a window of time, and again until the Ethernet
// Manager shows that it knows (R-VN-13). Pure, not thread-safe.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/time.h"
#include "wire/opa/vema_mad.h"

namespace weft::opa_vnic {

/// The window is the kernel driver's, the repetitions are policy.
struct TrapLimits {
  Duration window{Duration::nanoseconds(4096LL << 18)};  ///< 1.07 s
  unsigned most_in_window{5};
  Duration repeat{Duration::seconds(2)};
  unsigned most_repeats{16};
};

class TrapPacer {
 public:
  explicit TrapPacer(const TrapLimits& limits = {}) : limits_(limits) {}

  /// It has to be told, from now on.
  void report(wire::VemaEvent event, Instant now);
  /// The manager has read what the event is about, or has answered the trap.
  void settle(wire::VemaEvent event);
  void settle_all();

  /// An event to tell now; it counts as told. Call until there is none.
  [[nodiscard]] std::optional<wire::VemaEvent> take(Instant now);
  [[nodiscard]] Instant deadline() const;

 private:
  static constexpr std::size_t kEvents = 3;
  struct Event {
    Instant due{Instant::never()};  // never: nothing to tell
    unsigned repeats{};
  };
  [[nodiscard]] Event& event_of(wire::VemaEvent event) {
    return events_[static_cast<std::size_t>(event) - 1];
  }
  [[nodiscard]] bool is_window_full(Instant now) const {
    return now < window_end_ && sent_in_window_ >= limits_.most_in_window;
  }

  TrapLimits limits_;
  std::array<Event, kEvents> events_;
  Instant window_end_{};
  unsigned sent_in_window_{};
};

}  // namespace weft::opa_vnic
