#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/lock.h"
#include "base/result.h"
#include "hca/events.h"
#include "hca/types.h"

namespace weft::hca {

struct CompletionQueueOptions {
  bool ignore_overrun{};       ///< a full CQ loses its oldest completion and stays alive
  std::uint64_t (*clock)(){};  ///< stamps every completion as it is added; null: no stamps
};

/// How completions are gathered before an event tells of them: until there are `count`, or until
/// `period` has passed since the first. 0 and 1: none waits for others; a period of 0 has no end.
struct CompletionModeration {
  std::uint32_t count{};
  Duration period;
};

/// Completion queue (IBTA vol 1 §11.2.8, R-RVT-13). Any thread may push, poll and arm; one lock,
/// under the driver's policy.
class CompletionQueue {
 public:
  CompletionQueue(std::uint32_t capacity, LockPolicy policy, HcaEvents& events,
                  const CompletionQueueOptions& options = {});

  /// Adds a completion; a solicited or failed one also fires a solicited-only arm. On overflow
  /// nothing is added, the CQ is dead from then on and CqError is raised once; returns false.
  bool push(const Wc& wc, bool solicited) {
    return push_made(solicited, wc.status, [&](Wc& to) { to = wc; });
  }

  /// The same of one that `make(Wc&)` fills, which is empty but for its status; it must not call
  /// back. Where it lies, if nothing but its place in the queue is to be done.
  template <class Make>
  bool push_made(bool solicited, WcStatus status, Make make) {
    const std::lock_guard guard{lock_};
    const std::uint32_t size = size_.load(std::memory_order_relaxed);
    const bool is_usual = !dead_ && armed_ == Armed::No && stamps_.empty() && size < ring_.size() &&
                          status == WcStatus::Success;
    if (!is_usual) [[unlikely]] {
      Wc wc;
      wc.status = status;
      make(wc);
      return push_otherwise(wc, solicited);
    }
    make(*std::construct_at(&ring_[tail(size)]));  // faster than to assign an empty one
    count_added(size);
    if (solicited) {
      newest_solicited_ = pushed_;
    }
    return true;
  }

  /// Takes up to `out.size()` completions, oldest first; returns how many.
  std::size_t poll(std::span<Wc> out) {
    auto to = out.begin();
    return consume(out.size(), [&](const Wc& wc) { *to++ = wc; });
  }

  /// The same without a copy: hands each to `take(const Wc&)`, which must not call back.
  template <class Take>
  std::size_t consume(std::size_t most, Take take) {
    if (is_empty()) {
      return 0;  // the common case of a busy poller takes no lock
    }
    const std::lock_guard guard{lock_};
    const std::uint32_t size = size_.load(std::memory_order_relaxed);
    const std::size_t count = std::min<std::size_t>(most, size);
    for (std::size_t i = 0; i < count; ++i) {
      take(ring_[head_]);
      head_ = head_ + 1 == ring_.size() ? 0 : head_ + 1;
    }
    size_.store(size - static_cast<std::uint32_t>(count), std::memory_order_release);
    polled_since_event_ = true;
    return count;
  }

  /// The oldest completion and when it was added; false when there is none.
  bool poll_one(Wc& wc, std::uint64_t& stamp);

  /// One-shot request for a completion event, for the next or the next solicited completion; arming
  /// for all wins. It fires at once for completions that came after the last event, and for those
  /// that a poll since then left behind: HCAs, whose arm carries the consumer's position, do, and
  /// programs that take a part and wait again rely on it. A completion that made an event and was
  /// not polled yet makes no second one: others rely on that.
  void arm(bool solicited_only);

  /// Counts from now on, for events alone: completions are there to be polled at once. One that
  /// failed, and one that fills the CQ, waits for no others.
  void moderate(const CompletionModeration& moderation);

  /// The period of HcaEvents::completion_event_held() is over.
  void end_period();

  /// Changes the capacity; refuses one below the number of completions held.
  Result<void> resize(std::uint32_t capacity);

  /// Removes what is left of a QP that goes to RESET or is destroyed.
  void remove(Qpn qpn);

  [[nodiscard]] bool is_empty() const { return size_.load(std::memory_order_relaxed) == 0; }
  [[nodiscard]] std::uint32_t size() const { return size_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_dead() const { return dead_; }
  [[nodiscard]] std::uint32_t capacity() const { return static_cast<std::uint32_t>(ring_.size()); }

  void* user{};         ///< the interface's own object for this CQ
  void* driver_data{};  ///< the driver's
  std::atomic<std::uint32_t>
      uses{};  ///< QPs and work queues that refer to it; destroy is refused while not 0

 private:
  enum class Armed : std::uint8_t { No, Solicited, Any };
  /// Where one is added behind `size` others.
  [[nodiscard]] std::size_t tail(std::uint32_t size) const {
    const std::size_t place = std::size_t{head_} + size;
    return place >= ring_.size() ? place - ring_.size() : place;
  }
  void count_added(std::uint32_t size) {
    size_.store(size + 1, std::memory_order_release);
    ++pushed_;
  }
  [[gnu::noinline]] bool push_otherwise(const Wc& wc, bool solicited);
  void fire();
  [[nodiscard]] bool is_held_back(std::uint32_t waiting) const;
  void hold_back();
  void report_coalesced();

  PolicyLock lock_;
  HcaEvents& events_;
  CompletionQueueOptions options_;
  std::vector<Wc> ring_;
  std::vector<std::uint64_t> stamps_;  // beside ring_; empty without a clock
  std::uint32_t head_{};
  std::atomic<std::uint32_t> size_{};
  Armed armed_{Armed::No};
  CompletionModeration moderation_;
  std::uint32_t gathered_{};  // completions that the armed event is held back for
  bool polled_since_event_{};
  // Positions in all that was ever pushed, counted from 1.
  std::uint64_t pushed_{};
  std::uint64_t newest_solicited_{};
  std::uint64_t newest_failed_{};
  std::uint64_t notified_{};  // the newest when the last event was made
  bool dead_{};
};

}  // namespace weft::hca
