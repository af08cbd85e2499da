#include "sa/path_cache.h"

namespace weft::sa {

void PathCache::erase(Entries::iterator entry) {
  in_order_.erase(entry->second.order);
  paths_.erase(entry);
}

void PathCache::put(const PathWish& wish, const wire::PathRecord& path, Instant now) {
  if (limit_ == 0) {
    return;
  }
  if (const auto known = paths_.find(wish); known != paths_.end()) {
    erase(known);
  } else if (paths_.size() >= limit_) {
    erase(paths_.find(in_order_.begin()->second));
  }
  paths_.emplace(wish, Entry{.path = path, .told = now, .order = ++last_order_});
  in_order_.emplace(last_order_, wish);
}

std::optional<wire::PathRecord> PathCache::find(const PathWish& wish, Instant now) {
  const auto known = paths_.find(wish);
  if (known == paths_.end()) {
    return std::nullopt;
  }
  if (now - known->second.told >= age_) {
    erase(known);
    return std::nullopt;
  }
  return known->second.path;
}

void PathCache::erase_to(const Gid& dgid) {
  const auto is_to = [&](const Entries::iterator& at) { return at->first.dgid == dgid; };
  auto at = paths_.lower_bound(PathWish{.dgid = dgid, .is_reversible = false});
  while (at != paths_.end() && is_to(at)) {
    erase(at++);
  }
}

void PathCache::clear() {
  paths_.clear();
  in_order_.clear();
}

}  // namespace weft::sa
