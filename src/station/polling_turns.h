#pragma once

// Who takes what comes by a lane: a thread of the application that polls, or the progress thread
// (docs/ARCHITECTURE.md, decision 4). Pure: the caller passes the time.

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace weft::station {

/// What the application does about the requests in a lane's ring.
enum class RequestTurn : std::uint8_t {
  TakeAll,
  TakeSends,  // the progress thread is at the ring: one-sided requests are left to it
  TakeNone,
};

/// The turns of one lane. The application's threads write one cache line and the progress thread
/// another, since both look at the lane all the time. All of it are hints: a lane's rings have
/// owners, and nothing is lost if two look, or if none does for a moment.
class PollingTurns {
 public:
  /// SENDs and answers are left to an application that polled so recently; policy. It is waiting
  /// for them, and what they change lies in its cache.
  static constexpr Duration kFreshPoll = Duration::nanoseconds(500);
  static constexpr Duration kResponseGrace = Duration::microseconds(5);

  /// While the thread is hot, the application looks for requests only when it was told of a SEND,
  /// or after this many empty polls: then the thread is busy elsewhere. Policy.
  static constexpr std::uint32_t kPollsBetweenScans = 16;

  // --- a thread of the application, at each poll of a CQ

  void note_poll() {
    polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  /// `empty_polls`: polls of the CQ since one found something. Consumes the note of a SEND.
  [[nodiscard]] RequestTurn take_request_turn(std::uint32_t empty_polls) {
    if (!thread_is_hot_.load(std::memory_order_relaxed)) {
      return RequestTurn::TakeAll;
    }
    // The thread has the ring. Its cache lines are left alone until there is something for us.
    if (send_waits_.load(std::memory_order_relaxed)) {
      send_waits_.store(false, std::memory_order_relaxed);
      return RequestTurn::TakeSends;
    }
    return empty_polls % kPollsBetweenScans == kPollsBetweenScans - 1 ? RequestTurn::TakeAll
                                                                      : RequestTurn::TakeNone;
  }

  // --- the owner of the request ring

  /// The thread found a SEND in front and leaves it to the application.
  void note_waiting_send() {
    if (!send_waits_.load(std::memory_order_relaxed)) {
      send_waits_.store(true, std::memory_order_relaxed);
    }
  }

  // --- the progress thread

  /// Reads, now and then, whether the application has polled since the last call. `has_lease`: it
  /// has polled some lane and is not about to wait. `always_polled`: a planted bug.
  void observe(Instant at, bool has_lease, bool always_polled) {
    const std::uint64_t polls = polls_.load(std::memory_order_relaxed);
    if (polls != seen_polls_ || always_polled) {
      seen_polls_ = polls;
      polled_at_ = at;
    }
    leaves_sends_ = has_lease && at - polled_at_ < kFreshPoll;
    leaves_responses_ = has_lease && at - polled_at_ < kResponseGrace;
  }
  /// When observe() last saw a new poll.
  [[nodiscard]] Instant polled_at() const { return polled_at_; }
  [[nodiscard]] bool leaves_sends() const { return leaves_sends_; }
  [[nodiscard]] bool leaves_responses() const { return leaves_responses_; }

  /// The thread spins and has just taken requests here: the application stays away from the ring.
  void begin_hot() {
    if (!thread_is_hot_.load(std::memory_order_relaxed)) {
      thread_is_hot_.store(true, std::memory_order_relaxed);
    }
  }
  /// It is about to nap or sleep.
  void end_hot() {
    if (thread_is_hot_.load(std::memory_order_relaxed)) {
      thread_is_hot_.store(false, std::memory_order_relaxed);
    }
  }

 private:
  alignas(64) std::atomic<std::uint64_t> polls_{0};
  alignas(64) std::atomic<bool> thread_is_hot_{false};
  std::atomic<bool> send_waits_{false};
  // The thread's own.
  std::uint64_t seen_polls_{};
  Instant polled_at_{};
  bool leaves_sends_{};
  bool leaves_responses_{};
};

}  // namespace weft::station
