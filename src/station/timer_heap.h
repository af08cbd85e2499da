#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/lock.h"
#include "base/time.h"

namespace weft::station {

/// Deadlines of many objects, lazily: an object stands in the heap at most once, at a time not
/// later than its deadline. Deadlines that only move into the future, as those of a busy QP do,
/// cost one store. Any thread.
template <class Object>
class TimerHeap {
 public:
  /// True if this is now the earliest of all, so that who sleeps must be told.
  bool arm(Object& object, Instant at) {
    const std::lock_guard guard{lock_};
    entries_.push_back({at, &object});
    std::ranges::push_heap(entries_, later);
    publish();
    return entries_.front().object == &object;
  }

  /// Takes an object whose entry is due; null when none is.
  [[nodiscard]] Object* take_due(Instant now) {
    if (now < earliest()) {
      return nullptr;
    }
    const std::lock_guard guard{lock_};
    if (entries_.empty() || now < entries_.front().at) {
      return nullptr;
    }
    std::ranges::pop_heap(entries_, later);
    Object* const object = entries_.back().object;
    entries_.pop_back();
    publish();
    return object;
  }

  void remove(Object& object) {
    const std::lock_guard guard{lock_};
    if (std::erase_if(entries_, [&](const Entry& entry) { return entry.object == &object; }) != 0) {
      std::ranges::make_heap(entries_, later);
      publish();
    }
  }

  [[nodiscard]] Instant earliest() const {
    return Instant{Duration::nanoseconds(earliest_ns_.load(std::memory_order_relaxed))};
  }

 private:
  struct Entry {
    Instant at;
    Object* object;
  };
  static bool later(const Entry& a, const Entry& b) { return a.at > b.at; }
  void publish() {
    const Instant first = entries_.empty() ? Instant::never() : entries_.front().at;
    earliest_ns_.store(first.since_start().nanoseconds(), std::memory_order_relaxed);
  }

  PolicyLock lock_{LockPolicy::Spin};
  std::vector<Entry> entries_;
  std::atomic<std::int64_t> earliest_ns_{Instant::never().since_start().nanoseconds()};
};

}  // namespace weft::station
