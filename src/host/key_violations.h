#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

#include "base/time.h"
#include "hca/events.h"

namespace weft::host {

/// Packets that this process dropped for their P_Key or Q_Key, until the daemon hears of them: the
/// counters of PortInfo and traps 257 and 258 are its (IBTA vol 1 §14.2.5.1, §14.2.5.6). Anybody
/// may send such packets, as many as he likes, so the daemon hears of those of one port together,
/// now and then. Any thread; note() is called with a QP's lock held.
class KeyViolations {
 public:
  /// Between two reports. Policy.
  static constexpr Duration kPause = Duration::milliseconds(100);

  /// Those of one port and one kind of key, and the last of them.
  struct Report {
    std::uint32_t hca{};
    std::uint32_t count{};
    hca::BadKey last;
  };

  /// One more. True: it is the first since the last report, so that due() has changed.
  [[nodiscard]] bool note(std::uint32_t hca, const hca::BadKey& bad) {
    const std::lock_guard guard{lock_};
    const bool is_first = reports_.empty();
    const auto known = std::ranges::find_if(reports_, [&](const Report& report) {
      return report.hca == hca && report.last.port == bad.port && report.last.kind == bad.kind;
    });
    if (known == reports_.end()) {
      reports_.push_back({.hca = hca, .count = 1, .last = bad});
      return is_first;
    }
    known->count += known->count == std::numeric_limits<std::uint32_t>::max() ? 0 : 1;
    known->last = bad;
    return is_first;
  }

  /// When there is something to report; never: nothing was noted since.
  [[nodiscard]] Instant due() const {
    const std::lock_guard guard{lock_};
    return reports_.empty() ? Instant::never() : next_;
  }

  /// What is to be reported now: nothing before it is due.
  [[nodiscard]] std::vector<Report> take(Instant now) {
    const std::lock_guard guard{lock_};
    if (reports_.empty() || now < next_) {
      return {};
    }
    next_ = now + kPause;
    return std::exchange(reports_, {});
  }

 private:
  mutable std::mutex lock_;
  std::vector<Report> reports_;  // two kinds of each port
  Instant next_;
};

}  // namespace weft::host
