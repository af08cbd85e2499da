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

/// Options of create_cq.
struct CompletionQueueOptions {
  bool ignore_overrun{};       ///< a full CQ discards its oldest completion and stays usable
  std::uint64_t (*clock)(){};  ///< time stamps of completions, taken as they are added; null: none
};

/// Coalescing of completion events (ibv_modify_cq): an event waits until there are `count`
/// completions, or until `period` has passed since the first. A count of 0 or 1 disables it; a
/// period of 0 means no time limit.
struct CompletionModeration {
  std::uint32_t count{};
  Duration period;
};

/// Completion queue (R-RVT-13). Any thread may add, poll and arm; it has one
/// lock under the driver's policy.
class CompletionQueue {
 public:
  CompletionQueue(std::uint32_t capacity, LockPolicy policy, HcaEvents& events,
                  const CompletionQueueOptions& options = {});

  /// Adds a completion. A solicited or failed one also satisfies an arm for solicited completions.
  /// On overflow nothing is added, CqError is raised once, and the CQ is dead from then on; returns
  /// false.
  bool push(const Wc& wc, bool solicited) {
    return push_made(solicited, wc.status, [&](Wc& to) { to = wc; });
  }

  /// The same for a completion that `make(Wc&)` fills in, starting from an empty one with the
  /// status set. It is built in place if nothing else has to be done. `make` must not call back.
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
    make(*std::construct_at(&ring_[tail(size)]));  // faster than assigning an empty one
    count_added(size);
    if (solicited) {
      newest_solicited_ = pushed_;
    }
    return true;
  }

  /// Removes up to out.size() completions, oldest first; returns how many.
  std::size_t poll(std::span<Wc> out) {
    auto to = out.begin();
    return consume(out.size(), [&](const Wc& wc) { *to++ = wc; });
  }

  /// The same without copies: passes each to `take(const Wc&)`, which must not call back.
  template <class Take>
  std::size_t consume(std::size_t most, Take take) {
    if (is_empty()) {
      return 0;  // the common case of a busy poller needs no lock
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

  /// Removes the oldest completion and returns its time stamp; false if there is none.
  bool poll_one(Wc& wc, std::uint64_t& stamp);

  /// Requests one completion event, for the next or the next solicited completion; a pending arm
  /// for any completion takes precedence. It fires at once for completions added since the last
  /// event, and for those that a poll since then left in the CQ: the arm of hardware carries the
  /// consumer index and behaves so, and programs that poll only part of the CQ rely on it. A
  /// completion that has caused an event and has not been polled causes no second one, which other
  /// programs rely on.
  void arm(bool solicited_only);

  /// Sets the coalescing of events; completions can be polled at once regardless. A failed
  /// completion, and one that fills the CQ, fire the event immediately.
  void moderate(const CompletionModeration& moderation);

  /// The period of HcaEvents::completion_event_held() has elapsed.
  void end_period();

  /// Changes the capacity; refuses one below the number of completions in the CQ.
  Result<void> resize(std::uint32_t capacity);

  /// Removes the completions of a QP that enters RESET or is destroyed.
  void remove(Qpn qpn);

  [[nodiscard]] bool is_empty() const { return size_.load(std::memory_order_relaxed) == 0; }
  [[nodiscard]] std::uint32_t size() const { return size_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_dead() const { return dead_; }
  [[nodiscard]] std::uint32_t capacity() const { return static_cast<std::uint32_t>(ring_.size()); }

  void* user{};         ///< the C front end's object
  void* driver_data{};  ///< the driver's object
  std::atomic<std::uint32_t>
      uses{};  ///< QPs and work queues that use it; destruction is refused while not 0

 private:
  enum class Armed : std::uint8_t { No, Solicited, Any };
  /// Index at which the next completion is added, with `size` in the CQ.
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
  std::vector<std::uint64_t> stamps_;  // parallel to ring_; empty without a clock
  std::uint32_t head_{};
  std::atomic<std::uint32_t> size_{};
  Armed armed_{Armed::No};
  CompletionModeration moderation_;
  std::uint32_t gathered_{};  // completions for which the armed event is delayed
  bool polled_since_event_{};
  // Positions in the sequence of all completions ever added, from 1.
  std::uint64_t pushed_{};
  std::uint64_t newest_solicited_{};
  std::uint64_t newest_failed_{};
  std::uint64_t notified_{};  // the newest at the time of the last event
  bool dead_{};
};

}  // namespace weft::hca
