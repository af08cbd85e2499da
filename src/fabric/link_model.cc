#include "fabric/link_model.h"

#include <algorithm>
#include <cassert>

namespace weft::fabric {
namespace {

/// One of 0 .. kAlways-1; happens if below the rule's number.
bool happens(std::uint32_t parts_per_million, Random& random) {
  return random.below(FaultRule::kAlways) < parts_per_million;
}

/// 1 ns .. `most`, or nothing if there is no span to choose from; always one draw.
Duration draw(Duration most, Random& random) {
  const auto span = static_cast<std::uint64_t>(std::max<std::int64_t>(most.nanoseconds(), 1));
  const auto drawn = static_cast<std::int64_t>(random.below(span)) + 1;
  return Duration::nanoseconds(std::min(drawn, most.nanoseconds()));
}

}  // namespace

Duration LinkRate::duration(std::uint64_t bytes) const {
  if (megabits_per_second == 0) {
    return {};
  }
  const std::uint64_t bits_times_thousand = bytes * 8 * 1000;  // ns = bits * 1000 / (Mb/s)
  return Duration::nanoseconds(static_cast<std::int64_t>(
      (bits_times_thousand + megabits_per_second - 1) / megabits_per_second));
}

Transit transit(Instant now, Instant free_at, std::uint64_t bytes, LinkRate rate, Duration delay) {
  Transit result;
  result.starts = std::max(now, free_at);
  result.departs = result.starts + rate.duration(bytes);
  result.arrives = result.departs + delay;
  return result;
}

Transit DepartureClock::reserve(Instant now, std::uint64_t bytes, LinkRate rate, Duration delay) {
  if (rate.megabits_per_second == 0) {
    return transit(now, now, bytes, rate, delay);
  }
  std::int64_t seen = free_at_ns_.load(std::memory_order_relaxed);
  while (true) {
    const Instant claimed{Duration::nanoseconds(seen)};
    const Instant free_at = claimed > now + kMaxBacklog ? now : claimed;
    const Transit result = transit(now, free_at, bytes, rate, delay);
    if (free_at_ns_.compare_exchange_weak(seen, result.departs.since_start().nanoseconds(),
                                          std::memory_order_relaxed)) {
      return result;
    }
  }
}

Instant HeadOfQueueLife::deadline(Instant reached_head) const {
  if (is_infinite()) {
    return Instant::never();
  }
  return reached_head + TimeoutExponent{exponent_}.duration();
}

bool HeadOfQueueLife::must_discard(Instant reached_head, Instant now) const {
  return !is_infinite() && now >= deadline(reached_head);
}

bool FaultRule::is_quiet() const {
  return loss_ppm == 0 && duplication_ppm == 0 && corruption_ppm == 0 && reordering_ppm == 0 &&
         delay_ppm == 0;
}

Result<void> FaultRule::validate() const {
  for (const std::uint32_t ppm :
       {loss_ppm, duplication_ppm, corruption_ppm, reordering_ppm, delay_ppm}) {
    if (ppm > kAlways) {
      return fail(ErrorCode::InvalidArgument,
                  "a fault of {} parts per million is not possible: 1,000,000 is always", ppm);
    }
  }
  if (reordering_window < Duration{} || extra_delay < Duration{}) {
    return fail(ErrorCode::InvalidArgument, "a fault cannot deliver packets before they were sent");
  }
  return {};
}

FaultDecision decide(const FaultRule& rule, Random& random) {
  const bool lost = happens(rule.loss_ppm, random);
  FaultDecision decision;
  decision.duplicated = happens(rule.duplication_ppm, random);
  decision.corrupted = happens(rule.corruption_ppm, random);
  decision.reordered = happens(rule.reordering_ppm, random);
  const bool delayed = happens(rule.delay_ppm, random);
  const Duration reordering = draw(rule.reordering_window, random);
  const Duration delay = draw(rule.extra_delay, random);
  const Duration second = draw(std::max(rule.reordering_window, rule.extra_delay), random);
  const std::uint64_t corruption_seed = random();
  if (lost) {
    decision = {};
    decision.lost = true;
    return decision;
  }
  decision.held_back =
      (decision.reordered ? reordering : Duration{}) + (delayed ? delay : Duration{});
  decision.duplicate_held_back = decision.duplicated ? second : Duration{};
  decision.corruption_seed = decision.corrupted ? corruption_seed : 0;
  return decision;
}

}  // namespace weft::fabric
