#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weft::core {

/// Whether a managed CQ in which nothing is left is polled again at once or armed. To arm it, to
/// sleep and to be woken by way of an event costs a program several changes of threads, so while
/// completions follow one another closely the CQ is polled on. Where that found nothing in all its
/// time, whatever comes next does not make it linger, ever less often while that goes on: the CPU
/// may be what the other end waits for. Policy, not from the specification, which knows no polling.
class CqLinger {
 public:
  /// After the last completion. Zero: never.
  explicit CqLinger(Duration longest) : longest_(longest) {}

  /// After a look at the CQ. True: it is polled again.
  [[nodiscard]] bool polls_on(bool found, Instant now) {
    if (found) {
      return begin_or_extend(now);
    }
    if (!is_lingering_ || now < until_) {
      return is_lingering_;
    }
    is_lingering_ = false;
    if (was_in_vain_) {
      to_skip_ = pause_;
      pause_ = std::min(2 * pause_, kLongestPause);
    }
    return false;
  }

 private:
  static constexpr std::uint32_t kFirstPause = 1;
  static constexpr std::uint32_t kLongestPause = 64;  // of rounds with completions

  [[nodiscard]] bool begin_or_extend(Instant now) {
    if (is_lingering_) {
      was_in_vain_ = false;
      pause_ = kFirstPause;
    } else if (longest_ == Duration{}) {
      return false;
    } else if (to_skip_ != 0) {
      --to_skip_;
      return false;
    } else {
      is_lingering_ = was_in_vain_ = true;
    }
    until_ = now + longest_;
    return true;
  }

  Duration longest_;
  Instant until_{};
  bool is_lingering_{};
  bool was_in_vain_{};  // so far
  std::uint32_t to_skip_{};
  std::uint32_t pause_{kFirstPause};
};

}  // namespace weft::core
