#include "ulp/srp/multipath.h"

#include <algorithm>
#include <utility>

namespace weft::srp {

std::size_t Multipath::add_path(Session& session) {
  paths_.push_back(&session);
  return paths_.size() - 1;
}

/// The path that is in use as long as it is live; then the next one.
std::optional<std::size_t> Multipath::choose() const {
  for (std::size_t i = 0; i < paths_.size(); ++i) {
    const std::size_t path = (active_ + i) % paths_.size();
    if (paths_[path]->state() == PathState::Live) {
      return path;
    }
  }
  return std::nullopt;
}

/// No path is live, or blocked for a while only.
bool Multipath::none_returns() const {
  return std::ranges::all_of(paths_, [](const Session* path) {
    return path->state() == PathState::Lost || path->state() == PathState::FailFast ||
           path->state() == PathState::Idle;
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
  ++pending.attempts;
  return paths_[*path]->submit(pending.request, now).has_value();
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

void Multipath::handle_path_state(std::size_t /*path*/, PathState state, Instant now) {
  if (state == PathState::Live) {
    resume(now);
    return;
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
