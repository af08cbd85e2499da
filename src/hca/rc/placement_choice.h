#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "hca/placement.h"

namespace weft::hca {

/// Whether both ends map the pages of what is reached, so that a WRITE or READ is a copy without a
/// system call. That is quicker than packets whatever else is posted; but to learn of it costs a
/// look, and the owner grants only what is wished for. So while there is nothing, some messages
/// ask, ever fewer of them.
class SharedPagesChoice {
 public:
  [[nodiscard]] bool are_shared() const { return are_shared_; }
  /// For a message that becomes packets otherwise.
  [[nodiscard]] bool asks_now() {
    if (--until_asked_ != 0) {
      return false;
    }
    until_asked_ = pause_;
    pause_ = std::min(2 * pause_, kLongestPause);
    return true;
  }
  /// What an answer or a copy has shown. What was shared and is not now may soon be again.
  void note(PlacementMeans means) {
    const bool are_shared = means == PlacementMeans::SharedPages;
    if (are_shared_ && !are_shared) {
      until_asked_ = pause_ = kFirstPause;
    }
    are_shared_ = are_shared;
  }

 private:
  // In messages; policy. The first asks for a grant, which comes with a later message to the peer.
  static constexpr std::uint32_t kFirstPause = 4;
  static constexpr std::uint32_t kLongestPause = 512;

  bool are_shared_{};
  std::uint32_t until_asked_{kFirstPause};
  std::uint32_t pause_{kFirstPause};
};

/// Whether a WRITE or READ that is alone in its send queue is placed or sent
/// (PlacementPolicy::WhereQuicker). Packets are quick where a thread of the peer spins on a CPU of
/// its own, and ten times slower than a copy where it must get one first: so the packets of lone
/// messages are timed, and decide about the next ones.
///
/// A program that starts its next message as soon as one is placed may not wait for any; such a
/// stream is packets, which go on while the program does. It shows when messages are timed next: a
/// stream's are joined by others before they are complete. Who waits for them, as a chain of READs
/// does, has its next ones placed.
class PlacementChoice {
 public:
  /// For a message that starts alone.
  [[nodiscard]] bool places(Instant now) {
    if (!packets_are_slow_ || (!is_waited_for_ && now - placed_until_ < least_gap_)) {
      return false;
    }
    if (placed_ == time_every_) {
      return false;
    }
    ++placed_;
    return true;
  }

  /// A message was placed from `start` to `end`.
  void count_placed(Instant start, Instant end) {
    placed_until_ = end;
    least_gap_ = (end - start) / 2;
  }

  /// The lone message starts, as packets.
  void begin_timing(Instant now, std::uint32_t bytes, bool is_read) {
    started_ = now;
    // The bytes of a WRITE are there half-way before it completes.
    limit_ = copy_time(bytes) * (is_read ? 1 : 2);
  }
  /// It is not alone any more: how long it takes says nothing.
  void stop_timing() {
    if (is_timing()) {
      started_ = Instant::never();
      is_waited_for_ = false;
      time_every_ = kTimeFirstAfter;
      begin_look();
    }
  }
  [[nodiscard]] bool is_timing() const { return started_ != Instant::never(); }
  /// It is complete.
  void end_timing(Instant now) {
    if (++timed_ > kWaking) {
      // One that is slow now and then changes nothing.
      took_ = took_ + std::min(now - started_, limit_ * 4);
      limits_ = limits_ + limit_;
    }
    started_ = Instant::never();
    if (timed_ == kWaking + kTimedTogether) {
      decide();
    }
  }

 private:
  /// Policy: the first messages wake a thread of the peer that sleeps, the others meet it awake.
  static constexpr std::uint32_t kWaking = 4;
  /// Policy: so many together, since `now` may be some microseconds old.
  static constexpr std::uint32_t kTimedTogether = 8;
  /// Policy: after so many placed messages some are timed again, in case the CPUs have less to do
  /// now. It begins with fewer, since a stream that paused once was taken for one that waits.
  static constexpr std::uint32_t kTimeFirstAfter = 32;
  static constexpr std::uint32_t kTimeEvery = 4'096;

  /// Measured: a system call and what guards it, then 10 GB/s. Policy.
  [[nodiscard]] static constexpr Duration copy_time(std::uint32_t bytes) {
    return Duration::nanoseconds(1'800 + std::int64_t{bytes} / 10);
  }

  void begin_look() {
    timed_ = placed_ = 0;
    took_ = limits_ = {};
  }
  void decide() {
    const bool were_slow = packets_are_slow_;
    packets_are_slow_ = took_ > (were_slow ? limits_ : limits_ * 2);
    time_every_ = were_slow ? std::min(2 * time_every_, kTimeEvery) : kTimeFirstAfter;
    is_waited_for_ = true;
    begin_look();
  }

  bool packets_are_slow_{};
  bool is_waited_for_{};  // nothing joined the messages that were timed last
  std::uint32_t timed_{};
  std::uint32_t placed_{};  // since some were timed
  std::uint32_t time_every_{kTimeFirstAfter};
  Duration took_{};       // by those of `timed_` that count
  Duration limits_{};     // of the same
  Duration least_gap_{};  // between the end of a placed message and the next one, unless a stream
  Duration limit_{};
  Instant placed_until_{};
  Instant started_{Instant::never()};
};

}  // namespace weft::hca
