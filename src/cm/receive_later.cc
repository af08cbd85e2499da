// Processing of messages on established connections, and of SIDR.

#include <algorithm>
#include <array>
#include <utility>

#include "cm/manager.h"
#include "cm/planted_bug.h"
#include "wire/cm/dreq.h"
#include "wire/cm/lap.h"
#include "wire/cm/sidr.h"

namespace weft::cm {

void ConnectionManager::Impl::on_dreq(const Received& received) {
  const auto dreq = message_of<wire::Dreq>(received.mad);
  Connection* const connection =
      find_by_ids(dreq.remote_communication_id, dreq.local_communication_id);
  if (connection == nullptr) {  // answer all the same, so that the peer can release its connection
    ++counters.unmatched;
    if (planted(PlantedBug::UnknownDreqUnanswered)) {
      return;
    }
    const wire::Drep drep{.local_communication_id = dreq.remote_communication_id,
                          .remote_communication_id = dreq.local_communication_id};
    (void)transmit(received.port.key(), received.source, wire::CmAttribute::Drep,
                   make_mad(wire::CmAttribute::Drep, received.header.transaction_id, drep),
                   received.now);
    return;
  }
  if (dreq.remote_qpn != connection->link.local_qpn) {
    ++counters.malformed;
    return;
  }
  Link& link = connection->link;
  if (connection->state == State::Timewait &&
      (!link.later_answer || link.later_answer->attribute != wire::CmAttribute::Drep)) {
    // both sides sent a DREQ at the same time
    link.transaction_id = received.header.transaction_id;
    link.later_answer = {.attribute = wire::CmAttribute::Drep, .mad = make_drep(link, {})};
  }
  State next{};
  if (!takes(*connection, Input::Dreq, received, next)) {
    return;
  }
  link.transaction_id = received.header.transaction_id;
  if (connection->is_detached) {  // no user is left to answer it
    (void)answer_dreq(*connection, {}, received.now);
    return;
  }
  enter(*connection, next, received.now);
  report_event(*connection, CmEventType::DreqReceived, {}, dreq.private_data);
}

void ConnectionManager::Impl::on_drep(const Received& received) {
  const auto drep = message_of<wire::Drep>(received.mad);
  Connection* const connection =
      find_by_ids(drep.remote_communication_id, drep.local_communication_id);
  if (connection == nullptr) {
    ++counters.unmatched;
    return;
  }
  State next{};
  if (takes(*connection, Input::Drep, received, next)) {
    enter(*connection, next, received.now);
    report_event(*connection, CmEventType::DrepReceived, {}, drep.private_data);
  }
}

/// Checks an alternate path as far as the manager can.
std::optional<wire::AprStatus> ConnectionManager::Impl::fault_of(
    const wire::Lap& lap, const Connection& connection) const {
  const Link& link = connection.link;
  if (lap.remote_qpn != link.local_qpn) {
    return wire::AprStatus::InvalidQpn;
  }
  const auto port = std::ranges::find_if(ports_, [&](const auto& entry) {
    return entry.second->address().ca_guid == link.local_ca &&
           entry.second->has(lap.alternate.remote_gid);
  });
  if (port == ports_.end()) {
    return wire::AprStatus::InvalidGid;
  }
  if (!port->second->has(lap.alternate.remote_lid)) {
    return wire::AprStatus::InvalidLid;
  }
  const bool is_current = lap.alternate.remote_gid == link.primary.sgid &&
                          lap.alternate.local_gid == link.primary.dgid &&
                          lap.alternate.remote_lid == link.primary.slid &&
                          lap.alternate.local_lid == link.primary.dlid;
  return is_current ? std::optional{wire::AprStatus::IsCurrentPath} : std::nullopt;
}

namespace {

constexpr std::size_t kMaxEarlierLaps = 8;  // policy

/// True if this is a late duplicate of an earlier LAP that was answered.
[[nodiscard]] bool is_late_copy(Link& link, const mad::MadBytes& mad, Instant now) {
  std::erase_if(link.earlier_laps, [&](const EarlierLap& lap) { return lap.until <= now; });
  return std::ranges::any_of(link.earlier_laps,
                             [&](const EarlierLap& lap) { return lap.mad == mad; });
}

/// Called when a new LAP arrives. Duplicates of the last one were sent before, and stay in the
/// network for at most the packet lifetime.
void store_last_lap(Link& link, Instant now) {
  if (!link.is_last_lap_answered) {
    return;
  }
  if (link.earlier_laps.size() >= kMaxEarlierLaps) {
    link.earlier_laps.erase(link.earlier_laps.begin());
  }
  link.earlier_laps.push_back(
      {.mad = *link.last_lap, .until = now + TimeoutExponent{link.ack_timeout}.duration()});
}

}  // namespace

void ConnectionManager::Impl::on_lap(const Received& received) {
  const auto lap = message_of<wire::Lap>(received.mad);
  Connection* const connection =
      find_by_ids(lap.remote_communication_id, lap.local_communication_id);
  if (connection == nullptr) {
    ++counters.unmatched;
    return;
  }
  Link& link = connection->link;
  if (is_late_copy(link, received.mad, received.now)) {
    ++counters.of(wire::CmAttribute::Lap).duplicates;
    return;
  }
  const bool is_answered = link.is_last_lap_answered && *link.last_lap == received.mad &&
                           !planted(PlantedBug::AnsweredLapReportedAgain);
  State next{};
  if (!takes(*connection, is_answered ? Input::LapAnswered : Input::Lap, received, next)) {
    return;
  }
  store_last_lap(link, received.now);
  link.last_lap = received.mad;
  link.is_last_lap_answered = false;
  // The MRA or APR in answer must carry its transaction ID.
  link.transaction_id = received.header.transaction_id;
  if (const auto fault = fault_of(lap, *connection)) {
    (void)answer_lap(*connection, {.status = *fault}, received.now);
    return;
  }
  const Path path = path_of(lap.alternate, link.primary.pkey, link.primary.mtu);
  link.candidate = path;
  link.candidate_ack_timeout = lap.alternate.local_ack_timeout;
  enter(*connection, next, received.now);
  report_event(*connection, CmEventType::LapReceived, LapReceived{.alternate = path},
               lap.private_data);
}

void ConnectionManager::Impl::on_apr(const Received& received) {
  const auto apr = message_of<wire::Apr>(received.mad);
  Connection* const connection =
      find_by_ids(apr.remote_communication_id, apr.local_communication_id);
  if (connection == nullptr) {
    ++counters.unmatched;
    return;
  }
  Link& link = connection->link;
  State next{};
  if (!takes(*connection, Input::Apr, received, next)) {
    return;
  }
  // The APR answers an earlier LAP that was given up, not the pending one.
  if (link.pending_message &&
      header_of(link.pending_message->mad).transaction_id != received.header.transaction_id) {
    ++counters.unexpected;
    return;
  }
  const bool is_success =
      apr.status == wire::AprStatus::Success || planted(PlantedBug::RefusedPathLoaded);
  if (is_success && link.candidate) {
    link.alternate = link.candidate;
    link.alternate_ack_timeout = link.candidate_ack_timeout;
    link.has_loaded_alternate = true;
  }
  link.candidate.reset();
  const std::size_t length =
      std::min<std::size_t>(apr.additional_information_length, apr.additional_information.size());
  enter(*connection, next, received.now);
  report_event(*connection, CmEventType::AprReceived,
               AprReceived{
                   .status = apr.status,
                   .additional_information = {apr.additional_information.begin(),
                                              apr.additional_information.begin() +
                                                  static_cast<std::ptrdiff_t>(length)}
  },
               apr.private_data);
}

void ConnectionManager::Impl::on_sidr_req(const Received& received) {
  const auto request = message_of<wire::SidrReq>(received.mad);
  const Gid gid = received.source.global ? received.source.global->dgid : Gid{};
  const SidrKey key{.request_id = request.request_id, .lid = received.source.lid, .gid = gid};
  if (by_sidr_.contains(key)) {
    ++counters.of(wire::CmAttribute::SidrReq).duplicates;
    return;
  }
  const auto refuse = [&](wire::SidrStatus status) {
    const Link link{.transaction_id = received.header.transaction_id,
                    .sidr = key,
                    .service_id = request.service_id};
    (void)transmit(received.port.key(), received.source, wire::CmAttribute::SidrRep,
                   make_sidr_rep(link, {.status = status}), received.now);
  };
  const CmId listener = listeners_.find(request.service_id, received.port.address().ca_guid,
                                        request.private_data, QpType::Ud);
  if (listener == kNoCmId) {
    if (held_requests_.keep(
            request.service_id,
            {.port = received.port.key(), .source = received.source, .mad = received.mad},
            received.now)) {
      return;
    }
    ++counters.no_listener;
    return refuse(wire::SidrStatus::Unsupported);
  }
  Connection& taker = *find(listener);
  const Admission answer = admission(received, taker);
  if (answer != Admission::Admitted) {
    return answer == Admission::Full ? refuse(wire::SidrStatus::NoQp) : void();
  }
  Connection& connection = admit(received, taker);
  connection.link.sidr = key;
  connection.link.service_id = request.service_id;
  connection.link.qp_type = QpType::Ud;
  by_sidr_.emplace(key, connection.id);
  enter(connection, State::SidrReqRcvd, received.now);
  report_event(connection, CmEventType::SidrReqReceived,
               SidrReqReceived{.listener = listener,
                               .port = received.port.key(),
                               .service_id = request.service_id,
                               .pkey = request.pkey,
                               .slid = received.source.lid,
                               .sgid = received.source.global ? std::optional{gid} : std::nullopt},
               request.private_data);
}

void ConnectionManager::Impl::on_sidr_rep(const Received& received) {
  const auto rep = message_of<wire::SidrRep>(received.mad);
  Connection* const connection = find_by_ids(rep.request_id, 0);
  if (connection == nullptr) {
    ++counters.unmatched;
    return;
  }
  State next{};
  if (!takes(*connection, Input::SidrRep, received, next)) {
    return;
  }
  enter(*connection, next, received.now);
  report_event(*connection, CmEventType::SidrRepReceived,
               sidr_rep_received_from(rep, received.header.attribute_modifier), rep.private_data);
}

}  // namespace weft::cm
