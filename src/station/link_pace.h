#pragma once

// How a sender keeps a slow link busy without running far ahead of it (docs/ARCHITECTURE.md,
// decisions 7 and 8). Pure: the caller passes the time.

#include <algorithm>
#include <cstdint>

#include "base/time.h"

namespace weft::station {

/// Longest train, in payload bytes. Half of it costs more record headers; with twice as much the
/// reader waits for the writer. Both are slower; policy.
inline constexpr std::uint32_t kMaxTrainBytes = 8'192;

/// How far a sender may be ahead of its slowest link, and how long one train may occupy a link.
/// Policy: enough that a sender that sleeps wakes before the link is idle, and little enough that
/// others who share the link wait behind a few packets only.
inline constexpr Duration kAheadOfLink = Duration::microseconds(200);
inline constexpr Duration kLongestTrain = Duration::microseconds(100);

/// Bytes that a link of `rate_mbps` carries in `time`.
[[nodiscard]] constexpr std::uint64_t bytes_in(Duration time, std::uint32_t rate_mbps) {
  return static_cast<std::uint64_t>(time.microseconds()) * rate_mbps / 8;
}

/// Bytes on the wire that may wait for their departure on a path of `rate_mbps`; 0: no rate is set.
[[nodiscard]] constexpr std::uint64_t max_ahead(std::uint32_t rate_mbps) {
  return std::max<std::uint64_t>(kMaxTrainBytes, bytes_in(kAheadOfLink, rate_mbps));
}

/// The longest train on a path of `rate_mbps`, in payload bytes; 0: no rate is set.
[[nodiscard]] constexpr std::uint32_t longest_train(std::uint32_t rate_mbps) {
  return rate_mbps == 0 ? kMaxTrainBytes
                        : static_cast<std::uint32_t>(std::min<std::uint64_t>(
                              kMaxTrainBytes, bytes_in(kLongestTrain, rate_mbps)));
}

/// Since when packets have been ready for a link that is busy. A sender that lost its CPU comes too
/// late to keep the link busy; a packet that was ready departs when it would have departed, but at
/// most kMaxLateness ago. The caller serializes.
class Readiness {
 public:
  static constexpr Duration kMaxLateness = Duration::milliseconds(20);  // policy

  /// A packet must wait for the link.
  void must_wait(Instant at) { since_ = std::min(since_, at); }
  /// Something other than the link holds packets back.
  void forget() { since_ = Instant::never(); }
  /// When the packet that is sent `at` became ready. `is_waiting`: it comes from a wait queue.
  [[nodiscard]] Instant of_packet(Instant at, bool is_waiting) {
    since_ = is_waiting ? std::min(since_, at) : Instant::never();
    return std::min(at, std::max(since_, at - kMaxLateness));
  }

 private:
  Instant since_{Instant::never()};
};

}  // namespace weft::station
