#include "core/address_space.h"

#include <algorithm>
#include <mutex>

#include "base/assert.h"

namespace weft::core {

IntervalNotifier::~IntervalNotifier() {
  WEFT_ASSERT(number_ == 0, "a notifier is removed from its address space before it goes");
}

void AddressSpace::insert(IntervalNotifier& notifier) {
  WEFT_ASSERT(notifier.number_ == 0, "a notifier is in one address space, once");
  {
    const std::lock_guard lock{lock_};
    notifier.number_ = next_number_++;
    notifiers_.emplace(notifier.number_, &notifier);
  }
  if (notifier.start() < notifier.end()) {
    watch({notifier.start(), notifier.end()});
  }
}

void AddressSpace::remove(IntervalNotifier& notifier) {
  {
    std::unique_lock lock{lock_};
    notifiers_.erase(notifier.number_);
    while (notifier.calls_ != 0) {
      WEFT_ASSERT(policy_ != LockPolicy::None,
                  "a notifier is not removed from within its own call");
      const std::uint32_t ended = ended_calls_.load(std::memory_order_relaxed);
      lock.unlock();
      ended_calls_.wait(ended, std::memory_order_relaxed);
      lock.lock();
    }
    notifier.number_ = 0;
  }
  if (notifier.start() < notifier.end()) {
    unwatch({notifier.start(), notifier.end()});
  }
}

void AddressSpace::invalidate(std::uint64_t first, std::uint64_t last) {
  std::unique_lock lock{lock_};
  const std::uint64_t behind = next_number_;  // who comes later has nothing of the range yet
  for (auto at = notifiers_.begin(); at != notifiers_.end() && at->first < behind;) {
    IntervalNotifier& notifier = *at->second;
    const std::uint64_t number = at->first;
    const std::uint64_t from = std::max(first, notifier.start());
    const std::uint64_t to = std::min(last, notifier.end());
    if (from < to) {
      ++notifier.calls_;
      lock.unlock();
      notifier.invalidate(from, to);
      lock.lock();
      --notifier.calls_;
      ended_calls_.fetch_add(1, std::memory_order_relaxed);
      ended_calls_.notify_all();
    }
    at = notifiers_.upper_bound(number);  // others may have come and gone
  }
}

Result<void> AddressSpace::fault_in(std::uint64_t start, std::uint64_t count, bool for_writing,
                                    std::vector<std::uint64_t>& pages) {
  auto pinned = pin(start, count, for_writing, pages);
  if (pinned) {
    unpin(start, count, false);
  }
  return pinned;
}

bool AddressSpace::is_heard(const Range& range) {
  const std::lock_guard lock{lock_};
  return std::ranges::any_of(notifiers_, [&](const auto& entry) {
    return std::max(range.first, entry.second->start()) <
           std::min(range.second, entry.second->end());
  });
}

std::vector<AddressSpace::Range> AddressSpace::unheard_parts(const Range& range) {
  std::vector<Range> heard;
  {
    const std::lock_guard lock{lock_};
    for (const auto& [number, notifier] : notifiers_) {
      const Range part{std::max(range.first, notifier->start()),
                       std::min(range.second, notifier->end())};
      if (part.first < part.second) {
        heard.push_back(part);
      }
    }
  }
  std::ranges::sort(heard);
  std::vector<Range> parts;
  std::uint64_t at = range.first;
  for (const Range& part : heard) {
    if (at < part.first) {
      parts.emplace_back(at, part.first);
    }
    at = std::max(at, part.second);
  }
  if (at < range.second) {
    parts.emplace_back(at, range.second);
  }
  return parts;
}

}  // namespace weft::core
