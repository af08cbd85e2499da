#include "core/address_space.h"

#include <algorithm>
#include <mutex>

namespace weft::core {

IntervalNotifier::IntervalNotifier(AddressSpace& space, std::uint64_t start, std::uint64_t length)
    : space_(space), start_(start), end_(start + length) {
  const std::lock_guard lock{space.lock_};
  space.notifiers_.push_back(this);
}

IntervalNotifier::~IntervalNotifier() {
  const std::lock_guard lock{space_.lock_};
  std::erase(space_.notifiers_, this);
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
