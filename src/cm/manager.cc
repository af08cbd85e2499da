// Identifiers, listeners, event delivery and timers.

#include "cm/manager.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "cm/planted_bug.h"

namespace weft::cm {

ConnectionManager::Impl::Impl(const Options& chosen)
    : options(chosen),
      communication_ids_(chosen.seed),
      listeners_(chosen.limits.service_masks),
      held_requests_(chosen.listener_grace) {}

ConnectionManager::Impl::~Impl() {
  for (const auto& [key, port] : ports_) {
    // Fails only for an agent that is not registered.
    (void)port->gsi_.unregister_agent(port->agent_, Instant{});
  }
}

Connection* ConnectionManager::Impl::find(CmId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

const Connection* ConnectionManager::Impl::find(CmId id) const {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : &found->second;
}

/// Both IDs must match; the remote one only once it is known (R-CM-10).
Connection* ConnectionManager::Impl::find_by_ids(std::uint32_t local_id, std::uint32_t remote_id) {
  const auto found = by_local_id_.find(local_id);
  Connection* const connection = found == by_local_id_.end() ? nullptr : find(found->second);
  if (connection == nullptr ||
      (connection->link.remote_id != 0 && connection->link.remote_id != remote_id)) {
    return nullptr;
  }
  return connection;
}

Result<ConnectionManager::Impl::Allowed> ConnectionManager::Impl::allow(CmId id, Input call) {
  Connection* const connection = find(id);
  if (connection == nullptr || connection->is_detached) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  const Transition found = transition(connection->state, call);
  if (found.action == Action::AlreadyDone) {
    return fail(ErrorCode::AlreadyConnected, "id {} is established already", id.value());
  }
  if (found.action == Action::Refuse) {
    return fail(ErrorCode::InvalidArgument, "{} is not allowed for id {} in state {}",
                name_of(call), id.value(), name_of(connection->state));
  }
  return Allowed{*connection, found.next};
}

Connection& ConnectionManager::Impl::make_connection() {
  const CmId id{++last_id_};
  Connection& connection = connections_[id];
  connection.id = id;
  return connection;
}

std::uint32_t ConnectionManager::Impl::new_communication_id() {
  std::uint32_t id = 0;
  do {
    id = communication_ids_.next();
  } while (by_local_id_.contains(id));
  return id;
}

Result<CmId> ConnectionManager::Impl::create(CmObserver& observer, std::uint64_t context) {
  if (connections_.size() - detached_.size() >= options.limits.ids) {
    return fail(ErrorCode::OutOfMemory, "there are {} ids, which is the limit: destroy some",
                options.limits.ids);
  }
  Connection& connection = make_connection();
  connection.observer = &observer;
  connection.context = context;
  connection.is_reported = true;
  return connection.id;
}

Result<void> ConnectionManager::Impl::set_observer(CmId id, CmObserver& observer,
                                                   std::uint64_t context) {
  Connection* const connection = find(id);
  if (connection == nullptr || connection->is_detached) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  if (connection->shares != 0) {
    return fail(ErrorCode::Busy,
                "listener {} is shared by several users: its observer cannot be replaced",
                id.value());
  }
  connection->observer = &observer;
  connection->context = context;
  return {};
}

namespace {

[[nodiscard]] Result<void> check(const ListenParameters& parameters, const Limits& limits) {
  constexpr std::uint64_t kAssignedMask = 0xFF00'0000'0000'0000;  // IBTA annex A3, "AGN" = 2
  const std::uint64_t id = parameters.service_id;
  if (id != kAssignServiceId && (id & kAssignedMask) == kAssignServiceId) {
    return fail(ErrorCode::InvalidArgument,
                "service id {:#x} is of those that the manager gives: ask it for one", id);
  }
  if (parameters.match.value.size() != parameters.match.mask.size() ||
      parameters.match.mask.size() > limits.match_bytes) {
    return fail(ErrorCode::InvalidArgument,
                "private data is compared with {} bytes under a mask of {}; they must be as many, "
                "and {} at most",
                parameters.match.value.size(), parameters.match.mask.size(), limits.match_bytes);
  }
  return {};
}

}  // namespace

Result<std::uint64_t> ConnectionManager::Impl::listen(CmId id, const ListenParameters& parameters) {
  const auto allowed = allow(id, Input::Listen);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (const auto checked = check(parameters, options.limits); !checked) {
    return std::unexpected(checked.error());
  }
  const bool is_assigned = parameters.service_id == kAssignServiceId;
  const bool is_exact = is_assigned || parameters.service_mask == 0;
  const ListenerTable::Listener listener{
      .id = id,
      .service_id = is_assigned ? last_service_id_ + 1 : parameters.service_id,
      .mask = is_exact ? kExactServiceId : parameters.service_mask,
      .ca_guid = parameters.ca_guid,
      .match = parameters.match,
      .qp_type = parameters.qp_type};
  if (const auto added = listeners_.add(listener); !added) {
    return std::unexpected(added.error());
  }
  last_service_id_ += is_assigned ? 1 : 0;
  Connection& connection = allowed->connection;
  connection.listener = listener;
  connection.backlog = parameters.backlog.value_or(options.limits.backlog);
  connection.drops_excess_requests = parameters.drops_excess_requests;
  connection.state = allowed->next;
  held_requests_.on_listener_added(listener.service_id);
  return listener.service_id;
}

Result<CmId> ConnectionManager::Impl::insert_listen(CmObserver& observer, std::uint64_t service_id,
                                                    std::optional<Guid> ca_guid) {
  for (auto& [id, other] : connections_) {
    if (!other.listener || other.listener->service_id != service_id ||
        other.listener->ca_guid != ca_guid) {
      continue;
    }
    if (other.shares == 0 || other.observer != &observer) {
      return fail(ErrorCode::InvalidArgument, "service id {:#x} is listener {}'s, of {}",
                  service_id, id.value(),
                  other.shares == 0 ? "which is not shared" : "another observer");
    }
    ++other.shares;
    return id;
  }
  const auto id = create(observer, 0);
  if (!id) {
    return id;
  }
  if (const auto listening = listen(*id, {.service_id = service_id, .ca_guid = ca_guid});
      !listening) {
    connections_.erase(*id);
    return std::unexpected(listening.error());
  }
  find(*id)->shares = 1;
  return id;
}

void ConnectionManager::Impl::enter(Connection& connection, State next, Instant now) {
  connection.state = next;
  if (next == State::Idle) {
    release(connection);
    return;
  }
  Link& link = connection.link;
  if (!is_in_backlog(next)) {
    leave_backlog(link);
  }
  if (!awaits_answer(next)) {
    link.pending_message.reset();
    arm(connection, next == State::Timewait ? now + time_wait_of(link) : Instant::never());
  }
}

void ConnectionManager::Impl::leave_backlog(Link& link) {
  if (!std::exchange(link.is_in_backlog, false)) {
    return;
  }
  if (Connection* const listener = find(link.listener)) {
    --listener->backlog_used;
  }
  const auto peer =
      backlog_of_peer_.find({link.peer.lid, link.peer.global ? link.peer.global->dgid : Gid{}});
  if (--peer->second == 0) {
    backlog_of_peer_.erase(peer);
  }
}

/// Removes the connection from all indices.
void ConnectionManager::Impl::release(Connection& connection) {
  Link& link = connection.link;
  leave_backlog(link);
  arm(connection, Instant::never());
  by_local_id_.erase(link.local_id);
  const auto erase_own = [&connection](auto& index, const auto& key) {
    const auto found = index.find(key);
    if (found != index.end() && found->second == connection.id) {
      index.erase(found);
    }
  };
  erase_own(by_remote_id_, RemoteKey{link.remote_ca, link.remote_id});
  erase_own(by_remote_qpn_, RemoteKey{link.remote_ca, link.remote_qpn.value()});
  if (link.sidr) {
    erase_own(by_sidr_, *link.sidr);
  }
  if (link.is_peer_to_peer) {
    std::erase_if(peers_, [&](const auto& entry) { return entry.second == connection.id; });
  }
  link = {};
}

void ConnectionManager::Impl::arm(Connection& connection, Instant deadline) {
  Instant& armed = connection.link.deadline;
  if (armed != Instant::never()) {
    timers_.erase({armed, connection.id});
  }
  armed = deadline;
  if (armed != Instant::never()) {
    timers_.emplace(armed, connection.id);
  }
}

void ConnectionManager::Impl::reap(CmId id) {
  const Connection* const connection = find(id);
  if (connection != nullptr && connection->is_detached && connection->state == State::Idle) {
    detached_.erase(id);
    connections_.erase(id);
  }
}

/// The specification's exponential time in this driver's time scale, limited by policy whatever a
/// peer requests.
Duration ConnectionManager::Impl::waiting_time(std::uint8_t exponent) const {
  return bounded(TimeoutExponent{exponent}.duration());
}

Duration ConnectionManager::Impl::bounded(Duration span) const {
  return options.time_scale.apply(std::min(span, options.limits.max_wait));
}

Duration ConnectionManager::Impl::time_wait_of(const Link& link) const {
  if (planted(PlantedBug::TimeWaitOfZero)) {
    return {};
  }
  return options.time_scale.apply(
      std::min(TimeoutExponent{link.ack_timeout}.duration(), options.limits.max_time_wait));
}

void ConnectionManager::Impl::report_event(const Connection& connection, CmEventType type,
                                           decltype(CmEvent::details) details,
                                           ByteSpan private_data) {
  if (connection.is_detached) {
    return;
  }
  pending_events_.push_back({
      .id = connection.id,
      .event = {.type = type,
                .private_data = {private_data.begin(), private_data.end()},
                .details = std::move(details)}
  });
}

void ConnectionManager::Impl::run(Instant now) {
  if (is_delivering_) {
    return;  // called from a handler: the outer call delivers
  }
  is_delivering_ = true;
  while (!pending_events_.empty()) {
    PendingEvent pending_event = std::move(pending_events_.front());
    pending_events_.pop_front();
    Connection* const connection = find(pending_event.id);
    if (connection == nullptr || connection->is_detached) {
      continue;
    }
    pending_event.event.context = connection->context;
    connection->is_reported = true;
    // The handler may destroy the connection, which must not be accessed after this call.
    const Handled handled =
        connection->observer->handle(pending_event.id, pending_event.event, now);
    if (handled != Handled::Keep) {
      (void)destroy(pending_event.id, handled, now);  // fails if the handler destroyed it itself
    }
  }
  is_delivering_ = false;
}

void ConnectionManager::Impl::expire(CmId id, Instant now) {
  Connection& connection = *find(id);
  arm(connection, Instant::never());
  Link& link = connection.link;
  if (connection.state == State::Timewait) {
    enter(connection, transition(connection.state, Input::TimewaitOver).next, now);
    report_event(connection, CmEventType::TimewaitExit, {}, {});
    return reap(id);
  }
  WEFT_ASSERT(awaits_answer(connection.state) && link.pending_message,
              "only who awaits an answer sends again");
  if (link.pending_message->retries_left != 0) {
    --link.pending_message->retries_left;
    // A removed port or a full interface is treated like packet loss: the next retry may succeed.
    const wire::CmAttribute pending_message = link.pending_message->attribute;
    const bool is_held_back =
        (planted(PlantedBug::ReplyNotRepeated) && pending_message == wire::CmAttribute::Rep) ||
        (planted(PlantedBug::LookupNotRepeated) && pending_message == wire::CmAttribute::SidrReq);
    if (!is_held_back) {
      (void)transmit(connection, link.pending_message->attribute, link.pending_message->mad, now,
                     true);
    }
    return arm(connection, now + link.pending_message->response_timeout);
  }
  ++counters.timeouts;
  const wire::CmAttribute attribute = link.pending_message->attribute;
  link.pending_message.reset();
  link.candidate.reset();
  enter(connection, transition(connection.state, Input::RetriesExceeded).next, now);
  report_event(connection,
               attribute == wire::CmAttribute::Req    ? CmEventType::ReqTimeout
               : attribute == wire::CmAttribute::Rep  ? CmEventType::RepTimeout
               : attribute == wire::CmAttribute::Dreq ? CmEventType::DreqTimeout
               : attribute == wire::CmAttribute::Lap  ? CmEventType::LapTimeout
                                                      : CmEventType::SidrReqTimeout,
               {}, {});
  reap(id);
}

void ConnectionManager::Impl::handle_timeout(Instant now) {
  for (const HeldRequests::Request& request : held_requests_.take_due(now)) {
    if (Port* const port = find_port(request.port)) {
      const auto head = ByteSpan{request.mad}.first<wire::kSizeOf<wire::MadHeader>>();
      receive({.port = *port,
               .source = request.source,
               .mad = request.mad,
               .header = wire::unpack<wire::MadHeader>(head),
               .now = now});
    }
  }
  // Terminates, because each expiry removes the timer or arms it for later than now.
  while (!timers_.empty() && timers_.begin()->first <= now) {
    expire(timers_.begin()->second, now);
  }
  run(now);
}

Instant ConnectionManager::Impl::deadline() const {
  if (!pending_events_.empty()) {
    return Instant{};
  }
  const Instant kept = held_requests_.deadline();
  return timers_.empty() ? kept : std::min(kept, timers_.begin()->first);
}

}  // namespace weft::cm
