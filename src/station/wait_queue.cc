#include "station/wait_queue.h"

namespace weft::station {

/// With the lock.
void WaitQueue::append(Waiter& waiter) {
  if (WaitQueue* none = nullptr; waiter.queue_.compare_exchange_strong(none, this)) {
    waiting_.push_back(waiter);
    length_.fetch_add(1, std::memory_order_relaxed);
    all_.fetch_add(1, std::memory_order_relaxed);
  }
}

/// With the lock.
void WaitQueue::remove(Waiter& waiter) {
  List::remove(waiter);
  waiter.queue_.store(nullptr);
  length_.fetch_sub(1, std::memory_order_relaxed);
  all_.fetch_sub(1, std::memory_order_relaxed);
}

Waiter* WaitQueue::take_first(List& to) {
  const std::lock_guard guard{lock_};
  if (waiting_.empty()) {
    return nullptr;
  }
  Waiter& first = waiting_.pop_front();
  to.push_back(first);
  return &first;
}

void WaitQueue::leave(Waiter& waiter) {
  while (WaitQueue* const queue = waiter.queue()) {
    const std::lock_guard guard{queue->lock_};
    if (waiter.queue() == queue) {
      queue->remove(waiter);
    }
  }
}

void WaitQueue::move_all_to(WaitQueue& replacement) {
  while (!waiting_.empty()) {
    Waiter& waiter = waiting_.pop_front();
    waiter.queue_.store(&replacement);
    replacement.waiting_.push_back(waiter);
    length_.fetch_sub(1, std::memory_order_relaxed);
    replacement.length_.fetch_add(1, std::memory_order_relaxed);
  }
}

}  // namespace weft::station
