#include "ulp/srp/multipath.h"

#include <algorithm>
#include <utility>

namespace weft::srp {

std::size_t Multipath::add_path(Session& session) {
  paths_.push_back({.session = &session});
  return paths_.size() - 1;
}

/// The first of the order that is live: from the one in use, or from the preferred one.
std::optional<std::size_t> Multipath::choose() const {
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const std::size_t from = choice_ == PathChoice::PreferFirst ? 0 : active_;
    const std::size_t path = (from + i) % paths_.size();
    if (paths_[path].is_usable && paths_[path].session->state() == PathState::Live) {
      return path;
    }
  }
  return std::nullopt;
}

/// No path is live, or blocked for a while only.
bool Multipath::none_returns() const {
  return std::ranges::all_of(paths_, [](const Path& path) {
    const PathState state = path.session->state();
    return state == PathState::Lost || state == PathState::FailFast || state == PathState::Idle;
  });
}

Result<void> Multipath::submit(const Request& request, bool may_repeat, Instant now) {
  if (none_returns()) {
    return fail(ErrorCode::ShutDown, "no path is live, or may soon be");
  }
  const auto [place, is_new] =
      pending_.try_emplace(request.id, Pending{.request = request, .may_repeat = may_repeat});
  if (!is_new) {
    return fail(ErrorCode::InvalidArgument, "a request {} is under way", request.id);
  }
  if (!send(place->second, now)) {
    held_.push_back(request.id);
  }
  return {};
}

bool Multipath::send(Pending& pending, Instant now) {
  const auto path = choose();
  if (!path) {
    return false;
  }
  active_ = *path;
  pending.path = *path;
  ++pending.attempts;
  return paths_[*path].session->submit(pending.request, now).has_value();
}

void Multipath::handle_outcome(std::size_t path, std::uint64_t id, const Outcome& outcome,
                               Instant now) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) {
    return;
  }
  const bool never_sent = outcome.kind == Outcome::Kind::PathFailed;
  const bool repeats =
      never_sent || (outcome.kind == Outcome::Kind::Interrupted && found->second.may_repeat);
  if (!repeats || found->second.attempts >= kMaxAttempts) {
    end(id, outcome);
    return;
  }
  if (active_ == path) {
    active_ = (path + 1) % paths_.size();
  }
  if (send(found->second, now)) {
    return;
  }
  if (none_returns()) {
    end(id, outcome);
  } else {
    held_.push_back(id);
  }
}

Result<void> Multipath::abort(std::uint64_t id, Instant now) {
  const auto found = pending_.find(id);
  if (found == pending_.end()) {
    return fail(ErrorCode::NotFound, "no request {} is under way", id);
  }
  if (std::erase(held_, id) != 0) {
    end(id, {.kind = Outcome::Kind::Aborted});
    return {};
  }
  return paths_[found->second.path].session->abort(id, now);
}

void Multipath::set_usable(std::size_t path, bool is_usable, Instant now) {
  paths_[path].is_usable = is_usable;
  if (is_usable) {
    resume(now);
  }
}

void Multipath::handle_path_state(std::size_t path, PathState state, Instant now) {
  if (state == PathState::Live) {
    resume(now);
    return;
  }
  if (state == PathState::Blocked && choose()) {
    paths_[path].session->end_waiting();  // they do not wait for this one to come back
  }
  if (none_returns()) {
    for (const std::uint64_t id : std::exchange(held_, {})) {
      end(id, {.kind = Outcome::Kind::PathFailed});
    }
  }
}

void Multipath::resume(Instant now) {
  for (const std::uint64_t id : std::exchange(held_, {})) {
    const auto found = pending_.find(id);
    if (found != pending_.end() && !send(found->second, now)) {
      held_.push_back(id);
    }
  }
}

void Multipath::end(std::uint64_t id, const Outcome& outcome) {
  pending_.erase(id);
  client_.handle_outcome(id, outcome);
}

}  // namespace weft::srp
