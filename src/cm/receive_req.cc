// Processing of a REQ: validation, listener, admission (R-CM-2, R-CML-4, R-CM-9, R-CM-11).

#include <algorithm>
#include <array>
#include <utility>

#include "cm/manager.h"
#include "cm/planted_bug.h"
#include "verbs/mtu.h"
#include "wire/cm/req.h"

namespace weft::cm {
namespace {

/// Encodes a field's value as Additional Reject Information.
template <unsigned kBits>
[[nodiscard]] auto octets_of(std::uint64_t value) {
  std::array<std::byte, kBits / 8> octets{};
  wire::internal::write_bits(octets.data(), 0, kBits, value);
  return octets;
}

}  // namespace

void ConnectionManager::Impl::refuse_req(const Received& received, const wire::Req& req,
                                         wire::RejectReason reason,
                                         ByteSpan additional_information) {
  reject(received, reason, wire::CmSubject::Req, 0, req.local_communication_id,
         additional_information);
}

/// Rejects a REQ with illegal fields, whatever the state or listener.
bool ConnectionManager::Impl::refuses_fields(const Received& received, const wire::Req& req) {
  if (req.local_communication_id == 0) {
    ++counters.malformed;
    return true;
  }
  const bool is_known_transport = req.transport == wire::CmTransport::Rc ||
                                  req.transport == wire::CmTransport::Uc ||
                                  (req.transport == wire::CmTransport::Extended &&
                                   req.extended_transport == wire::CmExtendedTransport::Xrc);
  if (!is_known_transport) {
    ++counters.malformed;
    refuse_req(received, req, wire::RejectReason::InvalidTransportType);
    return true;
  }
  const auto most = static_cast<std::uint8_t>(received.port.address().active_mtu);
  if (req.path_mtu < static_cast<std::uint8_t>(verbs::Mtu::Mtu256) || req.path_mtu > most) {
    ++counters.malformed;
    refuse_req(received, req, wire::RejectReason::InvalidPathMtu, octets_of<8>(most));
    return true;
  }
  return false;
}

/// Rejects a REQ whose paths do not lead to this port; the ARI contains an acceptable value.
bool ConnectionManager::Impl::refuses_paths(const Received& received, const wire::Req& req) {
  const Port& port = received.port;
  const PortAddress& address = port.address();
  if (!port.has(req.primary.remote_gid)) {
    const Gid own = address.gids.empty() ? Gid{} : address.gids.front();
    refuse_req(received, req, wire::RejectReason::InvalidGid, own.octets());
    return true;
  }
  if (req.primary.is_subnet_local && !req.primary.remote_lid.is_permissive() &&
      !port.has(req.primary.remote_lid)) {
    refuse_req(received, req, wire::RejectReason::InvalidLid, octets_of<16>(address.lid.value()));
    return true;
  }
  if (!port.pkey_index(req.pkey)) {  // no specific reason exists for this
    refuse_req(received, req, wire::RejectReason::Unsupported);
    return true;
  }
  if (is_absent(req.alternate)) {
    return false;
  }
  const auto other = std::ranges::find_if(ports_, [&](const auto& entry) {
    return entry.second->address().ca_guid == address.ca_guid &&
           entry.second->has(req.alternate.remote_gid);
  });
  if (other == ports_.end()) {
    const Gid own = address.gids.empty() ? Gid{} : address.gids.front();
    refuse_req(received, req, wire::RejectReason::InvalidAlternateGid, own.octets());
    return true;
  }
  if (req.alternate.is_subnet_local && !other->second->has(req.alternate.remote_lid)) {
    refuse_req(received, req, wire::RejectReason::InvalidAlternateLid,
               octets_of<16>(other->second->address().lid.value()));
    return true;
  }
  return false;
}

/// Ends a connection that the peer has lost, and reports it if the user does not know yet.
void ConnectionManager::Impl::end_stale(Connection& old, Instant now) {
  if (is_established(old.state)) {
    disconnect(old, now);
  }
}

/// Finds a connection that already uses the remote QP. The REQ must come from an address of that
/// connection's paths: QPNs and GUIDs are not secret, so anybody could otherwise end a connection
/// by claiming that it is stale.
Connection* ConnectionManager::Impl::find_stale(const RemoteKey& qpn, const Received& received) {
  const auto known = by_remote_qpn_.find(qpn);
  if (known == by_remote_qpn_.end() || !is_held(known->second)) {
    return nullptr;
  }
  Connection* const old = find(known->second);
  const mad::MadAddress& peer = old->link.peer;
  const bool is_same_gid =
      peer.global && received.source.global && peer.global->dgid == received.source.global->dgid;
  const bool is_by_other_path =
      old->link.alternate && old->link.alternate->dlid == received.source.lid;
  return peer.lid == received.source.lid || is_same_gid || is_by_other_path ? old : nullptr;
}

/// If two connections claim the same remote QP, the first one keeps it.
void ConnectionManager::Impl::record_remote_qpn(const Connection& connection) {
  const RemoteKey key{connection.link.remote_ca, connection.link.remote_qpn.value()};
  const auto known = by_remote_qpn_.find(key);
  if (known == by_remote_qpn_.end() || !is_held(known->second)) {
    by_remote_qpn_.insert_or_assign(key, connection.id);
  }
}

/// True while the connection's communication ID and QP must not be reused (R-CM-11).
bool ConnectionManager::Impl::is_held(CmId id) const {
  const bool holds_time_wait = options.holds_time_wait && !planted(PlantedBug::StaleRequestTaken);
  return holds_time_wait || find(id)->state != State::Timewait;
}

bool ConnectionManager::Impl::is_known_or_stale(const Received& received, const wire::Req& req) {
  if (const auto known = by_remote_id_.find({req.local_ca_guid, req.local_communication_id});
      known != by_remote_id_.end() && is_held(known->second)) {
    Connection& connection = *find(known->second);
    State next{};
    (void)takes(connection, Input::Req, received, next);
    if (transition(connection.state, Input::Req).action == Action::RejectStale) {
      ++counters.stale;
      refuse_req(received, req, wire::RejectReason::StaleConnection);
    }
    return true;
  }
  Connection* const stale = find_stale({req.local_ca_guid, req.local_qpn.value()}, received);
  if (stale == nullptr) {
    return false;
  }
  ++counters.stale;
  refuse_req(received, req, wire::RejectReason::StaleConnection);
  end_stale(*stale, received.now);
  return true;
}

/// Finds this side's peer-to-peer REQ to the sender for the same service ID.
Connection* ConnectionManager::Impl::find_peer(const wire::Req& req) {
  const auto [first, last] = peers_.equal_range(req.service_id);
  for (auto each = first; each != last; ++each) {
    Connection& connection = *find(each->second);
    if (transition(connection.state, Input::ReqOfPeer).action == Action::Report &&
        connection.link.primary.dgid == req.primary.local_gid &&
        connection.link.primary.sgid == req.primary.remote_gid) {
      return &connection;
    }
  }
  return nullptr;
}

/// Checks the limits. The excess of a single peer is dropped without an answer, which would only
/// add load.
ConnectionManager::Impl::Admission ConnectionManager::Impl::admission(const Received& received,
                                                                      const Connection& listener) {
  const Gid gid = received.source.global ? received.source.global->dgid : Gid{};
  const auto peer = backlog_of_peer_.find({received.source.lid, gid});
  const bool is_over_share =
      peer != backlog_of_peer_.end() && peer->second >= options.limits.unanswered_of_peer;
  const bool is_full = listener.backlog_used >= listener.backlog ||
                       connections_.size() - detached_.size() >= options.limits.ids;
  if (!is_over_share && !is_full) {
    return Admission::Admitted;
  }
  ++counters.no_resources;
  return is_over_share || listener.drops_excess_requests ? Admission::FullDropped : Admission::Full;
}

/// Creates an id for the request.
Connection& ConnectionManager::Impl::admit(const Received& received, Connection& listener) {
  ++listener.backlog_used;
  ++backlog_of_peer_[{received.source.lid,
                      received.source.global ? received.source.global->dgid : Gid{}}];
  Connection& connection = make_connection();
  connection.observer = listener.observer;
  connection.context = listener.context;
  connection.link = {.port = received.port.key(),
                     .local_ca = received.port.address().ca_guid,
                     .peer = received.source,
                     .listener = listener.id,
                     .is_in_backlog = true};
  connection.link.transaction_id = received.header.transaction_id;
  return connection;
}

void ConnectionManager::Impl::on_req(const Received& received) {
  const auto req = message_of<wire::Req>(received.mad);
  if (refuses_fields(received, req) || is_known_or_stale(received, req)) {
    return;
  }
  if (Connection* const peer = find_peer(req)) {
    return match_peer_req(received, req, *peer);
  }
  const CmId listener = listeners_.find(req.service_id, received.port.address().ca_guid,
                                        req.private_data, passive_type(req));
  if (listener == kNoCmId) {
    if (held_requests_.keep(
            req.service_id,
            {.port = received.port.key(), .source = received.source, .mad = received.mad},
            received.now)) {
      return;
    }
    ++counters.no_listener;
    return refuse_req(received, req, wire::RejectReason::InvalidServiceId);
  }
  if (refuses_paths(received, req)) {
    return;
  }
  Connection& taker = *find(listener);
  const Admission answer = admission(received, taker);
  if (answer != Admission::Admitted) {
    return answer == Admission::Full ? refuse_req(received, req, wire::RejectReason::NoResources)
                                     : void();
  }
  Connection& connection = admit(received, taker);
  connection.link.local_id = new_communication_id();
  by_local_id_.emplace(connection.link.local_id, connection.id);
  accept_req(received, req, connection);
}

/// Both sides have sent a REQ: the one with the larger CA GUID (then QPN) stays active, the other
/// becomes passive (IBTA vol 1 §12.10.4).
void ConnectionManager::Impl::match_peer_req(const Received& received, const wire::Req& req,
                                             Connection& connection) {
  Link& link = connection.link;
  if (std::pair{link.local_ca, link.local_qpn} > std::pair{req.local_ca_guid, req.local_qpn}) {
    ++counters.of(wire::CmAttribute::Req).duplicates;
    return;
  }
  if (refuses_paths(received, req)) {
    return;
  }
  link.is_active = false;
  link.peer = received.source;
  link.transaction_id = received.header.transaction_id;
  accept_req(received, req, connection);
}

void ConnectionManager::Impl::accept_req(const Received& received, const wire::Req& req,
                                         Connection& connection) {
  ReqReceived reported = req_received_from(req, received.header.attribute_modifier);
  if (!req.primary.is_subnet_local || req.primary.remote_lid.is_permissive()) {
    // The LIDs in the REQ are those of the remote subnet; use those by which the message arrived.
    reported.primary.slid = Lid{received.port.address().lid.value() | received.source.path_bits};
    reported.primary.dlid = received.source.lid;
    reported.primary.sl = received.source.sl;
  }
  Link& link = connection.link;
  reported.listener = link.listener;
  reported.port = link.port;
  link.remote_id = req.local_communication_id;
  link.remote_ca = req.local_ca_guid;
  link.service_id = req.service_id;
  link.qp_type = reported.qp_type;
  link.remote_qpn = req.local_qpn;
  link.sq_psn = req.starting_psn;
  link.responder_resources = reported.responder_resources;
  link.initiator_depth = reported.initiator_depth;
  link.retry_count = req.retry_count;
  link.rnr_retry_count = req.rnr_retry_count;
  link.remote_response_timeout = req.local_cm_response_timeout;
  link.ack_timeout = req.primary.local_ack_timeout;
  link.alternate_ack_timeout = req.alternate.local_ack_timeout;
  link.primary = reported.primary;
  link.alternate = reported.alternate;
  link.response_timeout = waiting_time(req.local_cm_response_timeout);
  link.max_retries = req.max_cm_retries;
  by_remote_id_.insert_or_assign({link.remote_ca, link.remote_id}, connection.id);
  record_remote_qpn(connection);
  enter(connection, State::ReqRcvd, received.now);
  report_event(connection, CmEventType::ReqReceived, reported, req.private_data);
}

}  // namespace weft::cm
