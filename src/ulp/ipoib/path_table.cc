#include "ulp/ipoib/path_table.h"

#include <algorithm>

#include "ulp/ipoib/planted_bug.h"

namespace weft::ipoib {
namespace {

consteval bool rows_are_unique() {
  for (std::size_t i = 0; i < kPathRows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (kPathRows[i].state == kPathRows[j].state && kPathRows[i].event == kPathRows[j].event) {
        return false;
      }
    }
  }
  return true;
}
static_assert(rows_are_unique());

/// The path may be used while it is asked for again.
[[nodiscard]] bool is_usable(PathState state) {
  return state == PathState::Ready || state == PathState::Refreshing;
}

}  // namespace

std::optional<PathState> next_state(PathState state, PathEvent event) {
  const auto row = std::ranges::find_if(
      kPathRows, [&](const PathRow& one) { return one.state == state && one.event == event; });
  return row == kPathRows.end() ? std::nullopt : std::optional{row->next};
}

void PathTable::send(const wire::IpoibHardwareAddress& neighbor, Packet packet, Instant now) {
  auto found = paths_.find(neighbor.gid);
  if (found == paths_.end()) {
    make_room();
    found = paths_.try_emplace(neighbor.gid).first;
    enter(neighbor.gid, found->second, now);
  }
  Path& path = found->second;
  path.used = now;
  if (is_usable(path.state)) {
    sends_.push_back({.path = path.record, .neighbor = neighbor, .packet = std::move(packet)});
  } else if (path.state == PathState::Querying && path.waiting.size() < limits_.packets_of_path) {
    path.waiting.emplace_back(neighbor, std::move(packet));
  } else {
    ++counters_.dropped;
  }
}

/// The path that was not used for the longest time goes.
void PathTable::make_room() {
  if (paths_.size() < limits_.paths) {
    return;
  }
  const auto oldest =
      std::ranges::min_element(paths_, {}, [](const auto& path) { return path.second.used; });
  counters_.dropped += oldest->second.waiting.size();
  paths_.erase(oldest);
}

void PathTable::step(const Gid& dgid, Path& path, PathEvent event, Instant now) {
  if (const auto next = next_state(path.state, event)) {
    path.state = *next;
    enter(dgid, path, now);
  }
}

void PathTable::enter(const Gid& dgid, Path& path, Instant now) {
  path.due = Instant::never();
  switch (path.state) {
    case PathState::Querying:
    case PathState::Refreshing:
      path.query = ++last_query_;
      ++counters_.queries;
      queries_.push_back({.id = path.query, .dgid = dgid});
      return;
    case PathState::Ready:
      for (const auto& [neighbor, packet] : path.waiting) {
        sends_.push_back({.path = path.record, .neighbor = neighbor, .packet = packet});
      }
      if (!planted(PlantedBug::QueueSentTwice)) {
        path.waiting.clear();
      }
      return;
    case PathState::Backoff:
      ++counters_.failures;
      counters_.dropped += path.waiting.size();
      path.waiting.clear();
      path.due = now + limits_.backoff;
      return;
  }
}

std::map<Gid, PathTable::Path>::iterator PathTable::find_query(QueryId query) {
  return std::ranges::find_if(paths_, [&](const auto& path) {
    return path.second.query == query &&
           (path.second.state == PathState::Querying || path.second.state == PathState::Refreshing);
  });
}

void PathTable::answered(QueryId query, const wire::PathRecord& record, Instant now) {
  const auto found = find_query(query);
  if (found == paths_.end()) {
    return;
  }
  found->second.record = record;
  step(found->first, found->second, PathEvent::Answered, now);
}

void PathTable::failed(QueryId query, Instant now) {
  const auto found = find_query(query);
  if (found != paths_.end()) {
    step(found->first, found->second, PathEvent::Failed, now);
  }
}

void PathTable::invalidate_all(Instant now) {
  if (planted(PlantedBug::OldPathKept)) {
    return;
  }
  for (auto& [dgid, path] : paths_) {
    step(dgid, path, PathEvent::Invalidated, now);
  }
}

void PathTable::broken(const Gid& dgid, Instant now) {
  const auto found = paths_.find(dgid);
  if (found != paths_.end()) {
    step(dgid, found->second, PathEvent::Broken, now);
  }
}

void PathTable::clear() {
  for (const auto& [dgid, path] : paths_) {
    counters_.dropped += path.waiting.size();
  }
  counters_.dropped += sends_.size();
  paths_.clear();
  queries_.clear();
  sends_.clear();
}

/// A back-off ends when somebody wants to send again: an unused neighbour costs no queries.
void PathTable::handle_timeout(Instant now) {
  for (auto path = paths_.begin(); path != paths_.end();) {
    const auto current = path++;
    const bool is_unused = current->second.used + limits_.unused <= now;
    const bool is_refused =
        current->second.state == PathState::Backoff && current->second.due <= now;
    if (is_unused || is_refused) {
      counters_.dropped += current->second.waiting.size();
      paths_.erase(current);
    }
  }
}

Instant PathTable::deadline() const {
  Instant first = Instant::never();
  for (const auto& [dgid, path] : paths_) {
    first = std::min({first, path.due, path.used + limits_.unused});
  }
  return first;
}

std::optional<PathTable::Query> PathTable::poll_query() {
  if (queries_.empty()) {
    return std::nullopt;
  }
  const Query query = queries_.front();
  queries_.pop_front();
  return query;
}

std::optional<PathTable::Send> PathTable::poll_send() {
  if (sends_.empty()) {
    return std::nullopt;
  }
  Send send = std::move(sends_.front());
  sends_.pop_front();
  return send;
}

std::optional<wire::PathRecord> PathTable::find(const Gid& dgid) const {
  const auto found = paths_.find(dgid);
  return found == paths_.end() || !is_usable(found->second.state)
             ? std::nullopt
             : std::optional{found->second.record};
}

std::optional<PathState> PathTable::state_of(const Gid& dgid) const {
  const auto found = paths_.find(dgid);
  return found == paths_.end() ? std::nullopt : std::optional{found->second.state};
}

}  // namespace weft::ipoib
