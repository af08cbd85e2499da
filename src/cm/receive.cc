// Processing of received messages in each state (IBTA vol 1 §12.9). Messages are not trusted: every
// field is validated against what this side knows.

#include <algorithm>
#include <array>
#include <utility>

#include "cm/manager.h"
#include "wire/cm/rej.h"
#include "wire/cm/rep.h"

namespace weft::cm {

void ConnectionManager::Impl::receive(const Received& received) {
  const auto attribute = static_cast<wire::CmAttribute>(received.header.attribute_id);
  if (wire::name_of(attribute).empty()) {
    ++counters.unknown_attribute;
    return;
  }
  ++counters.of(attribute).received;
  if (received.header.class_version != wire::kCmClassVersion) {
    ++counters.bad_version;
    if (attribute == wire::CmAttribute::Req) {  // all messages start with the same fields as a REQ
      const std::array version{std::byte{wire::kCmClassVersion}};
      refuse_req(received, message_of<wire::Req>(received.mad),
                 wire::RejectReason::InvalidClassVersion, version);
    }
    return;
  }
  switch (attribute) {
    case wire::CmAttribute::Req:
      return on_req(received);
    case wire::CmAttribute::Mra:
      return on_mra(received);
    case wire::CmAttribute::Rej:
      return on_rej(received);
    case wire::CmAttribute::Rep:
      return on_rep(received);
    case wire::CmAttribute::Rtu:
      return on_rtu(received);
    case wire::CmAttribute::Dreq:
      return on_dreq(received);
    case wire::CmAttribute::Drep:
      return on_drep(received);
    case wire::CmAttribute::SidrReq:
      return on_sidr_req(received);
    case wire::CmAttribute::SidrRep:
      return on_sidr_rep(received);
    case wire::CmAttribute::Lap:
      return on_lap(received);
    case wire::CmAttribute::Apr:
      return on_apr(received);
  }
}

bool ConnectionManager::Impl::takes(Connection& connection, Input input, const Received& received,
                                    State& next) {
  const Transition found = transition(connection.state, input);
  next = found.next;
  const auto attribute = static_cast<wire::CmAttribute>(received.header.attribute_id);
  switch (found.action) {
    case Action::Report:
      return true;
    case Action::Repeat: {
      ++counters.of(attribute).duplicates;
      const bool is_setup = input == Input::Req || input == Input::Rep;
      repeat(connection, is_setup ? connection.link.setup_answer : connection.link.later_answer,
             received.now);
      return false;
    }
    case Action::Duplicate:
    case Action::Extend:
    case Action::RejectStale:
      ++counters.of(attribute).duplicates;
      return false;
    default:
      ++counters.unexpected;
      return false;
  }
}

/// Postpones the retry of a pending message by the time that the peer requested plus the packet
/// lifetime (R-CM-8). Limited, since a peer can send any number of MRAs.
void ConnectionManager::Impl::extend(Connection& connection, std::uint8_t service_timeout,
                                     Instant now) {
  Link& link = connection.link;
  if (!link.pending_message || link.pending_message->extensions_left == 0) {
    return;
  }
  --link.pending_message->extensions_left;
  arm(connection, now + waiting_time(service_timeout) + waiting_time(link.ack_timeout));
}

void ConnectionManager::Impl::on_mra(const Received& received) {
  const auto mra = message_of<wire::Mra>(received.mad);
  Connection* const connection =
      find_by_ids(mra.remote_communication_id, mra.local_communication_id);
  if (connection == nullptr) {
    ++counters.unmatched;
    return;
  }
  static constexpr std::array kInputs = {Input::MraOfReq, Input::MraOfRep, Input::MraOfLap};
  const auto subject = static_cast<std::size_t>(mra.subject);
  if (subject >= kInputs.size()) {
    ++counters.malformed;
    return;
  }
  State next{};
  const bool is_new = takes(*connection, kInputs[subject], received, next);
  if (is_new || transition(connection->state, kInputs[subject]).action == Action::Extend) {
    extend(*connection, mra.service_timeout, received.now);
  }
  if (is_new) {
    enter(*connection, next, received.now);
    report_event(*connection, CmEventType::MraReceived,
                 MraReceived{.subject = mra.subject, .service_timeout = mra.service_timeout},
                 mra.private_data);
  }
}

void ConnectionManager::Impl::on_rep(const Received& received) {
  const auto rep = message_of<wire::Rep>(received.mad);
  Connection* const connection =
      find_by_ids(rep.remote_communication_id, rep.local_communication_id);
  if (connection == nullptr) {  // our choice: an MRA for an unknown connection is ignored
    ++counters.unmatched;
    return reject(received, wire::RejectReason::InvalidCommunicationId, wire::CmSubject::Rep,
                  rep.remote_communication_id, rep.local_communication_id, {});
  }
  State next{};
  if (!takes(*connection, Input::Rep, received, next)) {
    return;
  }
  Link& link = connection->link;
  const RepReceived reported =
      rep_received_from(rep, link.qp_type, received.header.attribute_modifier);
  const RemoteKey id_key{rep.local_ca_guid, rep.local_communication_id};
  const RemoteKey qpn_key{rep.local_ca_guid, reported.remote_qpn.value()};
  const auto known = by_remote_id_.find(id_key);
  if (rep.local_communication_id == 0 || (known != by_remote_id_.end() && is_held(known->second))) {
    ++counters.malformed;
    return;
  }
  if (Connection* const stale = find_stale(qpn_key, received)) {
    ++counters.stale;
    reject(received, wire::RejectReason::StaleConnection, wire::CmSubject::Rep, link.local_id,
           rep.local_communication_id, {});
    return end_stale(*stale, received.now);
  }
  by_remote_id_.insert_or_assign(id_key, connection->id);
  link.remote_id = rep.local_communication_id;
  link.remote_ca = rep.local_ca_guid;
  link.remote_qpn = reported.remote_qpn;
  record_remote_qpn(*connection);
  link.sq_psn = rep.starting_psn;
  link.initiator_depth = reported.initiator_depth;
  link.responder_resources = reported.responder_resources;
  link.rnr_retry_count = rep.rnr_retry_count;
  link.ack_timeout = ack_timeout(link.primary.packet_life_time, rep.target_ack_delay);
  if (link.alternate) {
    link.alternate_ack_timeout =
        ack_timeout(link.alternate->packet_life_time, rep.target_ack_delay);
  }
  enter(*connection, next, received.now);
  report_event(*connection, CmEventType::RepReceived, reported, rep.private_data);
}

void ConnectionManager::Impl::on_rtu(const Received& received) {
  const auto rtu = message_of<wire::Rtu>(received.mad);
  Connection* const connection =
      find_by_ids(rtu.remote_communication_id, rtu.local_communication_id);
  if (connection == nullptr) {
    ++counters.unmatched;
    return;
  }
  State next{};
  if (takes(*connection, Input::Rtu, received, next)) {
    connection->link.setup_answer.reset();  // an MRA is no longer needed
    enter(*connection, next, received.now);
    report_event(*connection, CmEventType::RtuReceived, {}, rtu.private_data);
  }
}

/// A REJ for timeout may come from a peer that does not know our ID. The connection is then found
/// by the peer's ID and the CA GUID in the ARI.
Connection* ConnectionManager::Impl::find_rejected(const wire::Rej& rej) {
  constexpr std::size_t kGuidBytes = 8;
  if (rej.reason == wire::RejectReason::Timeout && rej.reject_info_length >= kGuidBytes) {
    const Guid guid{wire::internal::read_bits(rej.additional_information.data(), 0, 64)};
    const auto found = by_remote_id_.find({guid, rej.local_communication_id});
    if (found != by_remote_id_.end()) {
      return find(found->second);
    }
  }
  return find_by_ids(rej.remote_communication_id, rej.local_communication_id);
}

void ConnectionManager::Impl::on_rej(const Received& received) {
  const auto rej = message_of<wire::Rej>(received.mad);
  Connection* const connection = find_rejected(rej);
  if (connection == nullptr) {
    ++counters.unmatched;
    return;
  }
  const bool is_stale = rej.reason == wire::RejectReason::StaleConnection;
  State next{};
  if (!takes(*connection, is_stale ? Input::RejStale : Input::Rej, received, next)) {
    return;
  }
  const std::size_t length =
      std::min<std::size_t>(rej.reject_info_length, rej.additional_information.size());
  const CmId id = connection->id;
  enter(*connection, next, received.now);
  report_event(*connection, CmEventType::RejReceived,
               RejReceived{
                   .reason = rej.reason,
                   .subject = rej.subject,
                   .additional_information = {rej.additional_information.begin(),
                                              rej.additional_information.begin() +
                                                  static_cast<std::ptrdiff_t>(length)}
  },
               rej.private_data);
  reap(id);
}

}  // namespace weft::cm
