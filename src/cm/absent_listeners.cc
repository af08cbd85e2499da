#include "cm/absent_listeners.h"

#include <algorithm>

namespace weft::cm {

void AbsentListeners::listener_went(std::uint64_t service_id, Instant now) {
  if (grace_ == Duration{}) {
    return;
  }
  std::erase_if(gone_, [&](const Gone& gone) {
    return gone.service_id == service_id || gone.at + grace_ <= now;
  });
  if (gone_.size() == kMost) {
    gone_.pop_front();
  }
  gone_.push_back({.service_id = service_id, .at = now});
}

void AbsentListeners::listener_came(std::uint64_t service_id) {
  std::erase_if(gone_, [&](const Gone& gone) { return gone.service_id == service_id; });
  for (Kept& kept : kept_) {
    if (kept.service_id == service_id) {
      kept.until = Instant{};
    }
  }
}

bool AbsentListeners::keep(std::uint64_t service_id, const Request& request, Instant now) {
  const auto gone = std::ranges::find(gone_, service_id, &Gone::service_id);
  if (gone == gone_.end() || gone->at + grace_ <= now || kept_.size() == kMost) {
    return false;
  }
  kept_.push_back({.service_id = service_id, .until = gone->at + grace_, .request = request});
  return true;
}

std::vector<AbsentListeners::Request> AbsentListeners::take_due(Instant now) {
  std::vector<Request> due;
  std::erase_if(kept_, [&](const Kept& kept) {
    if (kept.until > now) {
      return false;
    }
    due.push_back(kept.request);
    return true;
  });
  return due;
}

Instant AbsentListeners::deadline() const {
  Instant next = Instant::never();
  for (const Kept& kept : kept_) {
    next = std::min(next, kept.until);
  }
  return next;
}

}  // namespace weft::cm
