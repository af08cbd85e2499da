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

/// Counts packets that this process dropped for their P_Key or Q_Key, until they are reported to
/// the daemon, which maintains PortInfo's counters and raises traps 257 and 258 (IBTA vol 1
/// §14.2.5.1, §14.2.5.6). Since any sender can cause these at any rate, they are reported per port,
/// in batches. Any thread; note() is called with a QP's lock held.
class KeyViolations {
 public:
  /// Policy: least time between two reports.
  static constexpr Duration kPause = Duration::milliseconds(100);

  /// Violations of one port and one kind of key; `last` is the most recent.
  struct Report {
    std::uint32_t hca{};
    std::uint32_t count{};
    hca::BadKey last;
  };

  /// Counts a violation. True if it is the first since the last report, which changes due().
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

  /// When the next report is due; never if there is nothing to report.
  [[nodiscard]] Instant due() const {
    const std::lock_guard guard{lock_};
    return reports_.empty() ? Instant::never() : next_;
  }

  /// The violations to report now; empty before due().
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
  std::vector<Report> reports_;  // at most two kinds per port
  Instant next_;
};

}  // namespace weft::host
