// Diagnostics: snapshots of identifiers, and invariants.

#include "base/assert.h"
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
    WEFT_ASSERT(connection.id == id, "cm keeps its invariants");
    WEFT_ASSERT((connection.observer == nullptr) == connection.is_detached,
                "cm keeps its invariants");
    WEFT_ASSERT(!connection.is_detached || state == State::DreqSent || state == State::Timewait,
                "cm keeps its invariants");
    WEFT_ASSERT(detached_.contains(id) == connection.is_detached, "cm keeps its invariants");
    WEFT_ASSERT(connection.listener.has_value() == (state == State::Listen),
                "cm keeps its invariants");
    WEFT_ASSERT((link.local_id != 0) == (is_link && !link.sidr), "cm keeps its invariants");
    WEFT_ASSERT(link.pending_message.has_value() == awaits_answer(state),
                "cm keeps its invariants");
    WEFT_ASSERT(
        (link.deadline != Instant::never()) == (awaits_answer(state) || state == State::Timewait),
        "cm keeps its invariants");
    WEFT_ASSERT(link.deadline == Instant::never() || timers_.contains({link.deadline, id}),
                "cm keeps its invariants");
    WEFT_ASSERT(link.local_id == 0 || by_local_id_.at(link.local_id) == id,
                "cm keeps its invariants");
    WEFT_ASSERT(!link.sidr || by_sidr_.at(*link.sidr) == id, "cm keeps its invariants");
    WEFT_ASSERT(!link.is_in_backlog || is_in_backlog(state), "cm keeps its invariants");
    // One in time-wait that is not held may have lost its ids to a new connection.
    WEFT_ASSERT(link.remote_id == 0 || !is_held(id) ||
                    by_remote_id_.at({link.remote_ca, link.remote_id}) == id,
                "cm keeps its invariants");
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
  WEFT_ASSERT(detached == detached_.size() && detached <= options.limits.time_waits,
              "cm keeps its invariants");
  WEFT_ASSERT(connections_.size() - detached <= options.limits.ids, "cm keeps its invariants");
  WEFT_ASSERT(listeners == listeners_.size(), "cm keeps its invariants");
  WEFT_ASSERT(with_local_id == by_local_id_.size(), "cm keeps its invariants");
  WEFT_ASSERT(with_sidr == by_sidr_.size(), "cm keeps its invariants");
  WEFT_ASSERT(armed == timers_.size(), "cm keeps its invariants");
  WEFT_ASSERT(peers == peers_.size(), "cm keeps its invariants");
  WEFT_ASSERT(by_remote_id_.size() <= connections_.size(), "cm keeps its invariants");
  WEFT_ASSERT(by_remote_qpn_.size() <= connections_.size(), "cm keeps its invariants");
  for ([[maybe_unused]] const auto& [id, connection] : connections_) {
    WEFT_ASSERT(connection.state != State::Listen || connection.backlog_used == backlog_used[id],
                "cm keeps its invariants");
  }
  std::size_t of_peers = 0;
  for ([[maybe_unused]] const auto& [peer, count] : backlog_of_peer_) {
    WEFT_ASSERT(count != 0 && count <= options.limits.unanswered_of_peer,
                "cm keeps its invariants");
    of_peers += count;
  }
  WEFT_ASSERT(of_peers == in_backlog, "cm keeps its invariants");
}

}  // namespace weft::cm
