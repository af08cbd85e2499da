#include "sa/path_cache.h"

namespace weft::sa {

void PathCache::erase(Entries::iterator entry) {
  in_order_.erase(entry->second.order);
  paths_.erase(entry);
}

void PathCache::put(const PathQuery& path_query, const wire::PathRecord& path, Instant now) {
  if (limit_ == 0) {
    return;
  }
  if (const auto known = paths_.find(path_query); known != paths_.end()) {
    erase(known);
  } else if (paths_.size() >= limit_) {
    erase(paths_.find(in_order_.begin()->second));
  }
  paths_.emplace(path_query, Entry{.path = path, .reported = now, .order = ++last_order_});
  in_order_.emplace(last_order_, path_query);
}

std::optional<wire::PathRecord> PathCache::find(const PathQuery& path_query, Instant now) {
  const auto known = paths_.find(path_query);
  if (known == paths_.end()) {
    return std::nullopt;
  }
  if (now - known->second.reported >= age_) {
    erase(known);
    return std::nullopt;
  }
  return known->second.path;
}

void PathCache::erase_to(const Gid& dgid) {
  const auto is_to = [&](const Entries::iterator& at) { return at->first.dgid == dgid; };
  auto at = paths_.lower_bound(PathQuery{.dgid = dgid, .is_reversible = false});
  while (at != paths_.end() && is_to(at)) {
    erase(at++);
  }
}

void PathCache::clear() {
  paths_.clear();
  in_order_.clear();
}

}  // namespace weft::sa
