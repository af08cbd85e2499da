#include "resolver/path_table.h"

#include <iterator>
#include <utility>

namespace weft::resolver {

void PathTable::show(std::optional<sa::PathPublisher> shown) {
  shown_ = shown;
  for (const auto& [asked, entry] : entries_) {
    if (shown_ && entry.path) {
      shown_->put(asked, *entry.path, entry.until);
    }
  }
}

void PathTable::erase(Entries::iterator entry) {
  if (shown_ && entry->second.path) {
    shown_->erase(entry->first);
  }
  ends_.erase({entry->second.until, entry->first});
  entries_.erase(entry);
}

void PathTable::set(const sa::PathQuery& asked, std::optional<wire::PathRecord> path,
                    Instant until) {
  if (const auto old = entries_.find(asked); old != entries_.end()) {
    erase(old);
  } else if (entries_.size() >= limits_.paths && !ends_.empty()) {
    ++evictions_;
    erase(entries_.find(ends_.begin()->second));
  } else if (entries_.size() >= limits_.paths) {
    return;  // all of them are preloaded
  }
  if (shown_ && path) {
    shown_->put(asked, *path, until);
  }
  entries_.emplace(asked, Entry{.path = std::move(path), .until = until});
  if (until != Instant::never()) {
    ends_.emplace(until, asked);
  }
}

void PathTable::put(const sa::PathQuery& asked, const wire::PathRecord& path, Instant now) {
  set(asked, path, now + limits_.age);
}

void PathTable::put_negative(const sa::PathQuery& asked, Instant now) {
  set(asked, std::nullopt, now + limits_.negative_age);
}

void PathTable::preload(const sa::PathQuery& asked, const wire::PathRecord& path) {
  set(asked, path, Instant::never());
}

const PathTable::Entry* PathTable::find(const sa::PathQuery& asked, Instant now) {
  const auto found = entries_.find(asked);
  if (found == entries_.end()) {
    return nullptr;
  }
  if (found->second.until <= now) {
    erase(found);
    return nullptr;
  }
  return &found->second;
}

void PathTable::invalidate() {
  for (const auto& [until, asked] : ends_) {
    const auto entry = entries_.find(asked);
    if (shown_ && entry->second.path) {
      shown_->erase(asked);
    }
    entries_.erase(entry);
  }
  ends_.clear();
}

void PathTable::invalidate_to(const Gid& dgid) {
  // The least of all that ask for this destination (sa::PathQuery::key).
  auto at = entries_.lower_bound(sa::PathQuery{.dgid = dgid, .is_reversible = false});
  while (at != entries_.end() && at->first.dgid == dgid) {
    const auto next = std::next(at);
    if (at->second.until != Instant::never()) {
      erase(at);
    }
    at = next;
  }
}

}  // namespace weft::resolver
