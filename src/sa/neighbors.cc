#include "sa/neighbors.h"

#include <algorithm>

#include "base/assert.h"

namespace weft::sa {

std::optional<wire::IpoibHardwareAddress> NeighborTable::find(const IpAddress& address,
                                                              Instant now) const {
  const auto found = neighbors_.find(address);
  return found != neighbors_.end() && now < found->second.until ? found->second.hardware
                                                                : std::nullopt;
}

void NeighborTable::erase(Neighbors::iterator neighbor) {
  solicitations_.erase({neighbor->second.next_solicitation, neighbor->first});
  ends_.erase({neighbor->second.until, neighbor->first});
  neighbors_.erase(neighbor);
}

/// Evicts the resolved entry that would expire first.
bool NeighborTable::make_room() {
  if (neighbors_.size() < limits_.neighbors) {
    return true;
  }
  const auto oldest = std::ranges::find_if(
      ends_, [&](const auto& end) { return neighbors_.at(end.second).hardware.has_value(); });
  if (oldest == ends_.end()) {
    return false;
  }
  erase(neighbors_.find(oldest->second));
  return true;
}

bool NeighborTable::solicit(const IpAddress& address, Instant until, Instant now) {
  auto found = neighbors_.find(address);
  if (found != neighbors_.end() && found->second.hardware) {
    erase(found);  // expired, or rejected by its user
    found = neighbors_.end();
  }
  if (found != neighbors_.end()) {
    Neighbor& neighbor = found->second;
    if (until > neighbor.until) {
      ends_.erase({neighbor.until, address});
      neighbor.until = until;
      ends_.emplace(until, address);
    }
    return true;
  }
  if (!make_room()) {
    return false;
  }
  neighbors_.emplace(
      address, Neighbor{.until = until, .next_solicitation = now, .interval = limits_.retransmit});
  ends_.emplace(until, address);
  solicitations_.emplace(now, address);
  return true;
}

std::vector<NeighborTable::Entry> NeighborTable::entries(Instant now) const {
  std::vector<Entry> all;
  for (const auto& [address, neighbor] : neighbors_) {
    if (now < neighbor.until) {
      all.push_back(
          {.address = address, .hardware = neighbor.hardware, .left = neighbor.until - now});
    }
  }
  return all;
}

void NeighborTable::stop_soliciting(const IpAddress& address) {
  const auto found = neighbors_.find(address);
  if (found != neighbors_.end() && !found->second.hardware) {
    erase(found);
  }
}

bool NeighborTable::take_answer(const IpAddress& address,
                                const wire::IpoibHardwareAddress& hardware, Instant now) {
  const auto found = neighbors_.find(address);
  if (found == neighbors_.end() || found->second.until <= now || hardware.gid.is_zero() ||
      hardware.gid.is_multicast()) {
    return false;
  }
  Neighbor& neighbor = found->second;
  if (neighbor.hardware) {
    const bool is_known_ports = neighbor.hardware->gid == hardware.gid;
    if (!neighbor.doubted_at ||
        (!is_known_ports && now < *neighbor.doubted_at + limits_.retransmit)) {
      return false;
    }
  }
  solicitations_.erase({neighbor.next_solicitation, address});
  ends_.erase({neighbor.until, address});
  neighbor = {.hardware = hardware,
              .until = now + limits_.reachable,
              .next_solicitation = {},
              .interval = {},
              .doubted_at = {}};
  ends_.emplace(neighbor.until, address);
  return true;
}

bool NeighborTable::take_announcement(const IpAddress& address,
                                      const wire::IpoibHardwareAddress& hardware, Instant now) {
  const auto found = neighbors_.find(address);
  if (found == neighbors_.end() || !found->second.hardware || found->second.until <= now) {
    return false;
  }
  if (found->second.hardware->gid != hardware.gid) {
    doubt(address, found->second, now);
    return false;
  }
  found->second.hardware = hardware;
  return true;
}

/// As neighbour unreachability detection would (RFC 4861 §7.3), but by asking all.
void NeighborTable::doubt(const IpAddress& address, Neighbor& neighbor, Instant now) {
  if (neighbor.doubted_at) {
    return;
  }
  neighbor.doubted_at = now;
  neighbor.next_solicitation = now;
  neighbor.interval = limits_.retransmit;
  solicitations_.emplace(now, address);
  ends_.erase({neighbor.until, address});
  neighbor.until = std::min(neighbor.until, now + limits_.doubt);
  ends_.emplace(neighbor.until, address);
}

std::vector<IpAddress> NeighborTable::take_solicitations(Instant now) {
  std::vector<IpAddress> due;
  while (!solicitations_.empty() && solicitations_.begin()->first <= now) {
    const IpAddress address = solicitations_.begin()->second;
    solicitations_.erase(solicitations_.begin());
    Neighbor& neighbor = neighbors_.at(address);
    neighbor.next_solicitation = now + neighbor.interval;
    neighbor.interval = std::min(neighbor.interval * 2, limits_.max_retransmit);
    solicitations_.emplace(neighbor.next_solicitation, address);
    due.push_back(address);
  }
  return due;
}

void NeighborTable::handle_timeout(Instant now) {
  while (!ends_.empty() && ends_.begin()->first <= now) {
    erase(neighbors_.find(ends_.begin()->second));
  }
}

Instant NeighborTable::deadline() const {
  return solicitations_.empty() ? Instant::never() : solicitations_.begin()->first;
}

void NeighborTable::forget() {
  solicitations_.clear();
  for (auto at = neighbors_.begin(); at != neighbors_.end();) {
    Neighbor& neighbor = at->second;
    if (neighbor.hardware) {
      ends_.erase({neighbor.until, at->first});
      at = neighbors_.erase(at);
      continue;
    }
    neighbor.next_solicitation = Instant{};
    neighbor.interval = limits_.retransmit;
    solicitations_.emplace(neighbor.next_solicitation, at->first);
    ++at;
  }
}

void NeighborTable::check_invariants() const {
  WEFT_ASSERT(ends_.size() == neighbors_.size() && neighbors_.size() <= limits_.neighbors,
              "the table keeps its invariants");
  std::size_t asked = 0;
  for (const auto& [address, neighbor] : neighbors_) {
    WEFT_ASSERT(ends_.contains({neighbor.until, address}), "the table keeps its invariants");
    const bool is_asked = !neighbor.hardware || neighbor.doubted_at;
    WEFT_ASSERT(is_asked == solicitations_.contains({neighbor.next_solicitation, address}),
                "the table keeps its invariants");
    asked += is_asked ? 1 : 0;
  }
  WEFT_ASSERT(asked == solicitations_.size(), "the table keeps its invariants");
}

}  // namespace weft::sa
