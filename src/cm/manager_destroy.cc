// Destruction of identifiers (R-CM-5).

#include <array>
#include <vector>

#include "cm/manager.h"
#include "cm/planted_bug.h"
#include "wire/cm/dreq.h"

namespace weft::cm {
namespace {

[[nodiscard]] std::array<std::byte, 8> octets_of(Guid guid) {
  std::array<std::byte, 8> octets{};
  wire::internal::write_bits(octets.data(), 0, 64, guid.value());
  return octets;
}

}  // namespace

Result<void> ConnectionManager::Impl::destroy(CmId id, Handled why, Instant now) {
  Connection* const connection = find(id);
  if (connection == nullptr || connection->is_detached) {
    return fail(ErrorCode::NotFound, "there is no id {}", id.value());
  }
  if (connection->shares > 1) {
    --connection->shares;
    return {};
  }
  const State state = connection->state;
  const Transition end = transition(state, Input::Destroy);
  if (state == State::Listen) {
    listeners_.remove(*connection->listener);
    held_requests_.on_listener_closed(connection->listener->service_id, now);
    destroy_unreported(id, now);
  }
  const bool is_unanswered =
      state == State::ReqRcvd || state == State::MraReqSent || state == State::SidrReqRcvd;
  const bool is_silent = why == Handled::DestroyNoResources && is_unanswered;
  notify_teardown(*connection, is_silent ? Action::Leave : end.action, now);
  if (planted(PlantedBug::IdLeakedAfterReject) && end.action == Action::RejectConsumer) {
    enter(*connection, State::Idle, now);
    return {};
  }
  connection->is_detached = true;
  connection->observer = nullptr;
  detached_.insert(id);
  if (end.action == Action::Disconnect) {
    disconnect(*connection, now);
  } else if (end.next != state || end.next == State::Idle) {
    enter(*connection, end.next, now);
  }
  reap(id);
  while (detached_.size() > options.limits.time_waits) {
    const CmId oldest = *detached_.begin();
    enter(*find(oldest), State::Idle, now);
    reap(oldest);
    ++counters.time_waits_evicted;
  }
  return {};
}

/// Notifies the peer, except by DREQ, whose answer must be awaited. A failure to send is ignored:
/// destruction never fails because of the network.
void ConnectionManager::Impl::notify_teardown(const Connection& connection, Action action,
                                              Instant now) {
  const Link& link = connection.link;
  const auto ca_guid = octets_of(link.local_ca);
  if (action == Action::RejectTimeout) {
    (void)transmit(
        connection, wire::CmAttribute::Rej,
        make_rej(link, connection.state,
                 {.reason = wire::RejectReason::Timeout, .additional_information = ca_guid}),
        now);
  } else if (action == Action::RejectConsumer) {
    (void)transmit(connection, wire::CmAttribute::Rej, make_rej(link, connection.state, {}), now);
  } else if (action == Action::AnswerDreq) {
    (void)transmit(connection, wire::CmAttribute::Drep, make_drep(link, {}), now);
  } else if (action == Action::RejectSidr) {
    (void)transmit(connection, wire::CmAttribute::SidrRep,
                   make_sidr_rep(link, {.status = wire::SidrStatus::Rejected}), now);
  }
}

/// Destroys connections created for a listener that were not yet reported to its user.
void ConnectionManager::Impl::destroy_unreported(CmId listener, Instant now) {
  std::vector<CmId> unknown;
  for (const PendingEvent& pending_event : pending_events_) {
    const Connection* const child = find(pending_event.id);
    if (child != nullptr && !child->is_reported && child->link.listener == listener) {
      unknown.push_back(pending_event.id);
    }
  }
  for (const CmId child : unknown) {
    (void)destroy(child, Handled::Destroy, now);  // fails for an id that was listed twice
  }
}

}  // namespace weft::cm
