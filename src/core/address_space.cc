#include "core/address_space.h"

#include <algorithm>
#include <mutex>

#include "base/assert.h"

namespace weft::core {

IntervalNotifier::~IntervalNotifier() {
  WEFT_ASSERT(!is_inserted_, "a notifier is removed from its address space before it goes");
}

void AddressSpace::insert(IntervalNotifier& notifier) {
  WEFT_ASSERT(!notifier.is_inserted_, "a notifier is in one address space, once");
  const std::lock_guard lock{lock_};
  notifiers_.push_back(&notifier);
  notifier.is_inserted_ = true;
}

void AddressSpace::remove(IntervalNotifier& notifier) {
  const std::lock_guard lock{lock_};
  std::erase(notifiers_, &notifier);
  notifier.is_inserted_ = false;
}

void AddressSpace::invalidate(std::uint64_t first, std::uint64_t last) {
  const std::lock_guard lock{lock_};
  for (IntervalNotifier* const notifier : notifiers_) {
    const std::uint64_t from = std::max(first, notifier->start());
    const std::uint64_t to = std::min(last, notifier->end());
    if (from < to) {
      notifier->invalidate(from, to);
    }
  }
}

}  // namespace weft::core
