#include "ulp/opa_vnic/trap_pacer.h"

#include <algorithm>

#include "ulp/opa_vnic/planted_bug.h"

namespace weft::opa_vnic {

void TrapPacer::report(wire::VemaEvent event, Instant now) {
  event_of(event) = {.due = now, .repeats = 0};
}

void TrapPacer::settle(wire::VemaEvent event) { event_of(event) = {}; }

void TrapPacer::settle_all() { events_ = {}; }

std::optional<wire::VemaEvent> TrapPacer::take(Instant now) {
  if (is_window_full(now)) {
    return std::nullopt;
  }
  const auto due =
      std::ranges::find_if(events_, [&](const Event& event) { return event.due <= now; });
  if (due == events_.end()) {
    return std::nullopt;
  }
  if (now >= window_end_) {
    window_end_ = now + limits_.window;
    sent_in_window_ = 0;
  }
  ++sent_in_window_;
  const bool is_last = due->repeats == limits_.most_repeats || planted(PlantedBug::TrapNotRepeated);
  due->due = is_last ? Instant::never() : now + limits_.repeat;
  ++due->repeats;
  return static_cast<wire::VemaEvent>(due - events_.begin() + 1);
}

Instant TrapPacer::deadline() const {
  Instant first = std::ranges::min_element(events_, {}, &Event::due)->due;
  const bool is_full = sent_in_window_ >= limits_.most_in_window;
  return first != Instant::never() && is_full ? std::max(first, window_end_) : first;
}

}  // namespace weft::opa_vnic
