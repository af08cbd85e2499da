#include "cm/held_requests.h"

#include <algorithm>

namespace weft::cm {

void HeldRequests::on_listener_closed(std::uint64_t service_id, Instant now) {
  if (grace_ == Duration{}) {
    return;
  }
  std::erase_if(closed_listeners_, [&](const ClosedListener& gone) {
    return gone.service_id == service_id || is_forgotten(gone, now);
  });
  if (closed_listeners_.size() == kMost) {
    closed_listeners_.pop_front();
  }
  closed_listeners_.push_back({.service_id = service_id, .at = now});
}

void HeldRequests::on_listener_added(std::uint64_t service_id) {
  std::erase_if(closed_listeners_,
                [&](const ClosedListener& gone) { return gone.service_id == service_id; });
  for (HeldRequest& kept : requests_) {
    if (kept.service_id == service_id) {
      kept.until = Instant{};
    }
  }
}

bool HeldRequests::keep(std::uint64_t service_id, const Request& request, Instant now) {
  const auto gone = std::ranges::find(closed_listeners_, service_id, &ClosedListener::service_id);
  if (gone == closed_listeners_.end() || is_forgotten(*gone, now) || requests_.size() == kMost) {
    return false;
  }
  requests_.push_back({.service_id = service_id, .until = now + grace_, .request = request});
  return true;
}

std::vector<HeldRequests::Request> HeldRequests::take_due(Instant now) {
  std::vector<Request> due;
  std::erase_if(requests_, [&](const HeldRequest& kept) {
    if (kept.until > now) {
      return false;
    }
    // Nobody came: neither this request nor the next one is held again.
    std::erase_if(closed_listeners_,
                  [&](const ClosedListener& gone) { return gone.service_id == kept.service_id; });
    due.push_back(kept.request);
    return true;
  });
  return due;
}

Instant HeldRequests::deadline() const {
  Instant next = Instant::never();
  for (const HeldRequest& kept : requests_) {
    next = std::min(next, kept.until);
  }
  return next;
}

}  // namespace weft::cm
