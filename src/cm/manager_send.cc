// Transmission: addresses, transaction IDs, retries.

#include <utility>

#include "cm/manager.h"
#include "wire/cm/dreq.h"
#include "wire/cm/rej.h"

namespace weft::cm {

/// MADs use the connection's own path, a choice that §12.9.8.1 leaves to the CM.
mad::MadAddress ConnectionManager::Impl::address_of(const Path& path, const Port& port) const {
  mad::MadAddress to{.lid = path.dlid, .sl = path.sl};
  to.pkey = port.address().pkeys[*port.pkey_index(path.pkey)];
  to.path_bits = static_cast<std::uint8_t>(path.slid.value() & ((1U << port.address().lmc) - 1));
  if (path.is_global()) {
    to.global = mad::GlobalRoute{.dgid = path.dgid,
                                 .flow_label = path.flow_label,
                                 .hop_limit = path.hop_limit,
                                 .traffic_class = path.traffic_class};
  }
  return to;
}

Result<void> ConnectionManager::Impl::transmit(PortKey key, const mad::MadAddress& to,
                                               wire::CmAttribute attribute,
                                               const mad::MadBytes& mad, Instant now,
                                               bool is_retry) {
  Port* const port = find_port(key);
  if (port == nullptr) {
    ++counters.send_failures;
    return fail(ErrorCode::NoSuchDevice, "port {} was removed", key.value());
  }
  if (auto posted = port->gsi_.post(port->agent_, to, {.mad = mad}, now); !posted) {
    ++counters.send_failures;
    return posted;
  }
  MessageCounters& count = counters.of(attribute);
  ++(is_retry ? count.retries : count.sent);
  return {};
}

Result<void> ConnectionManager::Impl::transmit(const Connection& connection,
                                               wire::CmAttribute attribute,
                                               const mad::MadBytes& mad, Instant now,
                                               bool is_retry) {
  return transmit(connection.link.port, connection.link.peer, attribute, mad, now, is_retry);
}

Result<void> ConnectionManager::Impl::send_and_await(Connection& connection, State next,
                                                     wire::CmAttribute attribute,
                                                     const mad::MadBytes& mad, Instant now) {
  if (auto sent = transmit(connection, attribute, mad, now); !sent) {
    return sent;
  }
  enter(connection, next, now);
  Link& link = connection.link;
  link.pending_message = PendingMessage{.attribute = attribute,
                                        .mad = mad,
                                        .response_timeout = link.response_timeout,
                                        .retries_left = link.max_retries,
                                        .extensions_left = options.limits.extensions};
  arm(connection, now + link.response_timeout);
  return {};
}

void ConnectionManager::Impl::repeat(Connection& connection, const Boxed<Answer>& answer,
                                     Instant now) {
  if (answer) {
    (void)transmit(connection, answer->attribute, answer->mad, now, true);
  }
}

/// A request carries the agent's number in the upper half of its TID, as all requests of the port
/// (R-MI-2); an answer repeats the TID of the request.
std::uint64_t ConnectionManager::Impl::new_transaction_id(PortKey key, std::uint32_t low) const {
  constexpr unsigned kHalf = 32;
  const Port* const port = find_port(key);
  return std::uint64_t{port == nullptr ? 0 : port->agent_.value()} << kHalf | low;
}

mad::MadBytes ConnectionManager::Impl::make_rej(const Link& link, State state,
                                                const RejectParameters& parameters) const {
  wire::Rej rej{
      .local_communication_id = link.local_id,
      .remote_communication_id = link.remote_id,
      .subject = wire::CmSubject::LapOrNothing,
      .reject_info_length = static_cast<std::uint8_t>(parameters.additional_information.size()),
      .reason = parameters.reason};
  if (state == State::ReqRcvd || state == State::MraReqSent) {
    rej.subject = wire::CmSubject::Req;
  } else if (state == State::RepRcvd || state == State::MraRepSent) {
    rej.subject = wire::CmSubject::Rep;
  }
  if (state == State::ReqRcvd) {  // the peer does not know our ID yet
    rej.local_communication_id = 0;
  }
  put(rej.additional_information, parameters.additional_information);
  put(rej.private_data, parameters.private_data);
  return make_mad(wire::CmAttribute::Rej, link.transaction_id, rej);
}

mad::MadBytes ConnectionManager::Impl::make_dreq(const Link& link, ByteSpan private_data) const {
  wire::Dreq dreq{.local_communication_id = link.local_id,
                  .remote_communication_id = link.remote_id,
                  .remote_qpn = link.remote_qpn};
  put(dreq.private_data, private_data);
  return make_mad(wire::CmAttribute::Dreq, new_transaction_id(link.port, link.local_id), dreq);
}

mad::MadBytes ConnectionManager::Impl::make_drep(const Link& link, ByteSpan private_data) {
  wire::Drep drep{.local_communication_id = link.local_id,
                  .remote_communication_id = link.remote_id};
  put(drep.private_data, private_data);
  return make_mad(wire::CmAttribute::Drep, link.transaction_id, drep);
}

/// Disconnects by DREQ without involving the user. If the DREQ cannot be sent, the connection ends
/// at once.
void ConnectionManager::Impl::disconnect(Connection& connection, Instant now) {
  const mad::MadBytes dreq = make_dreq(connection.link, {});
  if (!send_and_await(connection, State::DreqSent, wire::CmAttribute::Dreq, dreq, now)) {
    enter(connection, State::Timewait, now);
  }
}

void ConnectionManager::Impl::reject(const Received& received, wire::RejectReason reason,
                                     wire::CmSubject subject, std::uint32_t local_id,
                                     std::uint32_t remote_id, ByteSpan additional_information) {
  wire::Rej rej{.local_communication_id = local_id,
                .remote_communication_id = remote_id,
                .subject = subject,
                .reject_info_length = static_cast<std::uint8_t>(additional_information.size()),
                .reason = reason};
  put(rej.additional_information, additional_information);
  (void)transmit(received.port.key(), received.source, wire::CmAttribute::Rej,
                 make_mad(wire::CmAttribute::Rej, received.header.transaction_id, rej),
                 received.now);
}

}  // namespace weft::cm
