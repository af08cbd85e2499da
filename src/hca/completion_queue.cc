#include "hca/completion_queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>

namespace weft::hca {

CompletionQueue::CompletionQueue(std::uint32_t capacity, LockPolicy policy, HcaEvents& events,
                                 const CompletionQueueOptions& options)
    : lock_(policy),
      events_(events),
      options_(options),
      ring_(capacity),
      stamps_(options.clock == nullptr ? 0 : capacity) {}

/// Caller must hold the lock.
bool CompletionQueue::push_otherwise(const Wc& wc, bool solicited) {
  if (dead_) {
    return false;
  }
  std::uint32_t size = size_.load(std::memory_order_relaxed);
  if (size == ring_.size() && options_.ignore_overrun) {
    head_ = head_ + 1 == ring_.size() ? 0 : head_ + 1;
    --size;
  }
  if (size == ring_.size()) {
    dead_ = true;
    if (events_.explains_errors()) {
      events_.explain(fmt::format(
          "a CQ of {} entries overran: QP {:#x} completed one more before the program polled",
          ring_.size(), wc.qpn.value()));
    }
    events_.async_event(
        {.type = AsyncEventType::CqError, .qp = nullptr, .cq = this, .srq = nullptr, .port = {}});
    return false;
  }
  const std::size_t place = tail(size);
  ring_[place] = wc;
  if (options_.clock != nullptr) {
    stamps_[place] = options_.clock();
  }
  count_added(size);
  const bool counts = solicited || wc.status != WcStatus::Success;
  if (counts) {
    newest_solicited_ = pushed_;
  }
  if (wc.status != WcStatus::Success) {
    newest_failed_ = pushed_;
  }
  if (armed_ == Armed::Any || (armed_ == Armed::Solicited && counts)) {
    ++gathered_;
    if (is_held_back(gathered_)) {
      hold_back();
    } else {
      fire();
    }
  }
  return true;
}

/// True if `waiting` completions without an event are too few to raise one.
bool CompletionQueue::is_held_back(std::uint32_t waiting) const {
  const std::uint32_t size = size_.load(std::memory_order_relaxed);
  return waiting < moderation_.count && size < ring_.size() && newest_failed_ <= pushed_ - size;
}

/// The period starts with the first completion that is held back.
void CompletionQueue::hold_back() {
  if (gathered_ == 1 && moderation_.period != Duration{}) {
    events_.completion_event_held(*this, moderation_.period);
  }
}

void CompletionQueue::moderate(const CompletionModeration& moderation) {
  const std::lock_guard guard{lock_};
  moderation_ = moderation;
  report_coalesced();  // under the old moderation
}

void CompletionQueue::end_period() {
  const std::lock_guard guard{lock_};
  report_coalesced();
}

/// Does nothing if the completions were polled meanwhile.
void CompletionQueue::report_coalesced() {
  if (std::exchange(gathered_, 0) != 0 && !is_empty()) {
    fire();
  }
}

bool CompletionQueue::poll_one(Wc& wc, std::uint64_t& stamp) {
  if (is_empty()) {
    return false;
  }
  const std::lock_guard guard{lock_};
  const std::uint32_t size = size_.load(std::memory_order_relaxed);
  if (size == 0) {
    return false;
  }
  wc = ring_[head_];
  stamp = stamps_.empty() ? 0 : stamps_[head_];
  head_ = head_ + 1 == ring_.size() ? 0 : head_ + 1;
  size_.store(size - 1, std::memory_order_release);
  polled_since_event_ = true;
  return true;
}

void CompletionQueue::arm(bool solicited_only) {
  const std::lock_guard guard{lock_};
  const std::uint64_t newest = solicited_only ? newest_solicited_ : pushed_;
  const std::uint64_t polled = pushed_ - size_.load(std::memory_order_relaxed);
  if (newest > polled && (newest > notified_ || polled_since_event_)) {
    const std::uint32_t waiting = size_.load(std::memory_order_relaxed);
    if (!is_held_back(waiting)) {
      fire();
      return;
    }
    if (std::exchange(gathered_, waiting) == 0 && moderation_.period != Duration{}) {
      events_.completion_event_held(*this, moderation_.period);
    }
  }
  if (armed_ != Armed::Any) {
    armed_ = solicited_only ? Armed::Solicited : Armed::Any;
  }
}

void CompletionQueue::fire() {
  armed_ = Armed::No;
  gathered_ = 0;
  notified_ = pushed_;
  polled_since_event_ = false;
  events_.completion_event(*this);
}

Result<void> CompletionQueue::resize(std::uint32_t capacity) {
  const std::lock_guard guard{lock_};
  const std::uint32_t size = size_.load(std::memory_order_relaxed);
  if (capacity < size) {
    return fail(ErrorCode::InvalidArgument,
                "the CQ holds {} completions, more than the new capacity {}; poll it first", size,
                capacity);
  }
  std::vector<Wc> ring(capacity);
  std::vector<std::uint64_t> stamps(stamps_.empty() ? 0 : capacity);
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::size_t from = (head_ + i) % ring_.size();
    ring[i] = ring_[from];
    if (!stamps.empty()) {
      stamps[i] = stamps_[from];
    }
  }
  ring_.swap(ring);
  stamps_.swap(stamps);
  head_ = 0;
  return {};
}

void CompletionQueue::remove(Qpn qpn) {
  const std::lock_guard guard{lock_};
  const std::uint32_t size = size_.load(std::memory_order_relaxed);
  std::uint32_t kept = 0;
  for (std::uint32_t i = 0; i < size; ++i) {
    const std::size_t from = (head_ + i) % ring_.size();
    if (ring_[from].qpn != qpn) {
      const std::size_t to = (head_ + kept) % ring_.size();
      ring_[to] = ring_[from];
      if (!stamps_.empty()) {
        stamps_[to] = stamps_[from];
      }
      ++kept;
    }
  }
  size_.store(kept, std::memory_order_release);
}

}  // namespace weft::hca
