// Diagnostics: snapshots of identifiers, and invariants.

#include <cassert>

#include "cm/manager.h"

namespace weft::cm {
namespace {

[[nodiscard]] IdStatus status_of(const Connection& connection) {
  const Link& link = connection.link;
  IdStatus status{.id = connection.id,
                  .state = connection.state,
                  .context = connection.context,
                  .is_detached = connection.is_detached,
                  .service_id = link.service_id,
                  .local_communication_id = link.local_id,
                  .remote_communication_id = link.remote_id,
                  .remote_ca = link.remote_ca,
                  .qp_type = link.qp_type,
                  .local_qpn = link.local_qpn,
                  .remote_qpn = link.remote_qpn,
                  .primary = link.primary,
                  .alternate = link.alternate,
                  .deadline = link.deadline};
  if (connection.listener) {
    status.service_id = connection.listener->service_id;
    status.service_mask = connection.listener->mask;
  } else if (connection.state != State::Idle) {
    status.port = link.port;
  }
  return status;
}

}  // namespace

std::optional<IdStatus> ConnectionManager::Impl::status(CmId id) const {
  const Connection* const connection = find(id);
  return connection == nullptr ? std::nullopt : std::optional{status_of(*connection)};
}

std::vector<IdStatus> ConnectionManager::Impl::ids() const {
  std::vector<IdStatus> all;
  for (const auto& [id, connection] : connections_) {
    all.push_back(status_of(connection));
  }
  return all;
}

void ConnectionManager::Impl::check_invariants() const {
  std::size_t detached = 0;
  std::size_t listeners = 0;
  std::size_t with_local_id = 0;
  std::size_t with_sidr = 0;
  std::size_t armed = 0;
  std::size_t in_backlog = 0;
  std::size_t peers = 0;
  std::map<CmId, unsigned> backlog_used;
  for (const auto& [id, connection] : connections_) {
    const Link& link = connection.link;
    const State state = connection.state;
    [[maybe_unused]] const bool is_link = state != State::Idle && state != State::Listen;
    assert(connection.id == id);
    assert((connection.observer == nullptr) == connection.is_detached);
    assert(!connection.is_detached || state == State::DreqSent || state == State::Timewait);
    assert(detached_.contains(id) == connection.is_detached);
    assert(connection.listener.has_value() == (state == State::Listen));
    assert((link.local_id != 0) == (is_link && !link.sidr));
    assert(link.awaited.has_value() == awaits_answer(state));
    assert((link.deadline != Instant::never()) ==
           (awaits_answer(state) || state == State::Timewait));
    assert(link.deadline == Instant::never() || timers_.contains({link.deadline, id}));
    assert(link.local_id == 0 || by_local_id_.at(link.local_id) == id);
    assert(!link.sidr || by_sidr_.at(*link.sidr) == id);
    assert(!link.is_in_backlog || is_in_backlog(state));
    // The IDs of a connection in TimeWait that is not held may belong to a new connection.
    assert(link.remote_id == 0 || !is_held(id) ||
           by_remote_id_.at({link.remote_ca, link.remote_id}) == id);
    detached += connection.is_detached ? 1 : 0;
    listeners += connection.listener ? 1 : 0;
    with_local_id += link.local_id != 0 ? 1 : 0;
    with_sidr += link.sidr ? 1 : 0;
    armed += link.deadline != Instant::never() ? 1 : 0;
    peers += link.is_peer_to_peer ? 1 : 0;
    if (link.is_in_backlog) {
      ++in_backlog;
      ++backlog_used[link.listener];
    }
  }
  assert(detached == detached_.size() && detached <= options.limits.time_waits);
  assert(connections_.size() - detached <= options.limits.ids);
  assert(listeners == listeners_.size());
  assert(with_local_id == by_local_id_.size());
  assert(with_sidr == by_sidr_.size());
  assert(armed == timers_.size());
  assert(peers == peers_.size());
  assert(by_remote_id_.size() <= connections_.size());
  assert(by_remote_qpn_.size() <= connections_.size());
  for ([[maybe_unused]] const auto& [id, connection] : connections_) {
    assert(connection.state != State::Listen || connection.backlog_used == backlog_used[id]);
  }
  std::size_t of_peers = 0;
  for ([[maybe_unused]] const auto& [peer, count] : backlog_of_peer_) {
    assert(count != 0 && count <= options.limits.unanswered_of_peer);
    of_peers += count;
  }
  assert(of_peers == in_backlog);
}

}  // namespace weft::cm
