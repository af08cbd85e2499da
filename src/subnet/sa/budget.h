#pragma once

#include <algorithm>
#include <cstddef>
#include <map>

#include "base/identifiers.h"
#include "base/time.h"

namespace weft::subnet {

/// Rate limit of SA work per requesting port: a burst plus a sustained rate (a token bucket). A
/// port that exceeds it is refused without delaying others. Work is measured in bytes of responses;
/// all other costs of a request are converted to bytes.
class SaBudget {
 public:
  struct Limits {  // policy, not from the specification
    std::size_t burst_bytes{std::size_t{32} << 20};
    std::size_t bytes_per_second{std::size_t{4} << 20};
  };
  explicit SaBudget(const Limits& limits) : limits_(limits) {}

  [[nodiscard]] bool has_budget(Guid port, Instant now) const {
    const auto found = paid_at_.find(port);
    return found == paid_at_.end() || found->second - span_of(limits_.burst_bytes) <= now;
  }
  void charge(Guid port, std::size_t bytes, Instant now) {
    Instant& paid_at = paid_at_[port];
    paid_at = std::max(paid_at, now) + span_of(bytes);
  }
  void forget(Guid port) { paid_at_.erase(port); }

 private:
  [[nodiscard]] Duration span_of(std::size_t bytes) const {
    constexpr std::int64_t kSecond = 1'000'000'000;
    const auto rate = static_cast<std::int64_t>(std::max<std::size_t>(limits_.bytes_per_second, 1));
    const auto count = static_cast<std::int64_t>(bytes);
    return Duration::seconds(count / rate) + Duration::nanoseconds(count % rate * kSecond / rate);
  }

  Limits limits_;
  // time at which the port's work so far is paid for at the sustained rate
  std::map<Guid, Instant> paid_at_;
};

}  // namespace weft::subnet
