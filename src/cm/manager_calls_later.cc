// Calls on established connections, and SIDR calls.

#include "cm/manager.h"
#include "wire/cm/dreq.h"
#include "wire/cm/lap.h"
#include "wire/cm/sidr.h"

namespace weft::cm {

/// R-CM-3: modifying the QP is up to its user. The connection ends even if the DREQ cannot be sent.
Result<void> ConnectionManager::Impl::send_dreq(CmId id, ByteSpan private_data, Instant now) {
  const auto allowed = allow(id, Input::SendDreq);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (auto checked = check_length("private data of a DREQ", private_data, kDreqPrivateData);
      !checked) {
    return checked;
  }
  Connection& connection = allowed->connection;
  const mad::MadBytes dreq = make_dreq(connection.link, private_data);
  auto sent = send_and_await(connection, allowed->next, wire::CmAttribute::Dreq, dreq, now);
  if (!sent) {
    enter(connection, State::Timewait, now);
  }
  return sent;
}

Result<void> ConnectionManager::Impl::send_drep(CmId id, ByteSpan private_data, Instant now) {
  const auto allowed = allow(id, Input::SendDrep);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (auto checked = check_length("private data of a DREP", private_data, kDrepPrivateData);
      !checked) {
    return checked;
  }
  Connection& connection = allowed->connection;
  return answer_dreq(connection, private_data, now);
}

Result<void> ConnectionManager::Impl::answer_dreq(Connection& connection, ByteSpan private_data,
                                                  Instant now) {
  connection.link.later_answer = {.attribute = wire::CmAttribute::Drep,
                                  .mad = make_drep(connection.link, private_data)};
  auto sent = transmit(connection, wire::CmAttribute::Drep, connection.link.later_answer->mad, now);
  enter(connection, State::Timewait, now);
  return sent;
}

Result<void> ConnectionManager::Impl::send_lap(CmId id, const Path& alternate,
                                               ByteSpan private_data, Instant now) {
  const auto allowed = allow(id, Input::SendLap);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (auto checked = check(alternate, "alternate"); !checked) {
    return checked;
  }
  if (auto checked = check_length("private data of a LAP", private_data, kLapPrivateData);
      !checked) {
    return checked;
  }
  const auto port = port_of(alternate);
  if (!port) {
    return std::unexpected(port.error());
  }
  Connection& connection = allowed->connection;
  Link& link = connection.link;
  const PortAddress& address = (*port)->address();
  if (address.ca_guid != link.local_ca || alternate.pkey != link.primary.pkey ||
      alternate.mtu != link.primary.mtu) {
    return fail(ErrorCode::InvalidArgument,
                "an alternate path must have the primary path's CA, P_Key and MTU");
  }
  const std::uint8_t timeout = ack_timeout(alternate.packet_life_time, address.ack_delay);
  wire::Lap lap{.local_communication_id = link.local_id,
                .remote_communication_id = link.remote_id,
                .remote_qpn = link.remote_qpn,
                .remote_cm_response_timeout = link.remote_response_timeout};
  static_cast<wire::CmPath&>(lap.alternate) = wire_path(alternate, timeout);
  put(lap.private_data, private_data);
  // Each LAP has its own transaction ID, by which the peer distinguishes it from a duplicate.
  const std::uint64_t transaction = new_transaction_id(link.port, link.local_id + ++link.laps_sent);
  if (auto sent = send_and_await(connection, allowed->next, wire::CmAttribute::Lap,
                                 make_mad(wire::CmAttribute::Lap, transaction, lap), now);
      !sent) {
    return sent;
  }
  link.candidate = alternate;
  link.candidate_ack_timeout = timeout;
  return {};
}

Result<void> ConnectionManager::Impl::send_apr(CmId id, const AprParameters& parameters,
                                               Instant now) {
  const auto allowed = allow(id, Input::SendApr);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (auto checked = check(parameters); !checked) {
    return checked;
  }
  return answer_lap(allowed->connection, parameters, now);
}

Result<void> ConnectionManager::Impl::answer_lap(Connection& connection,
                                                 const AprParameters& parameters, Instant now) {
  Link& link = connection.link;
  wire::Apr apr{.local_communication_id = link.local_id,
                .remote_communication_id = link.remote_id,
                .additional_information_length =
                    static_cast<std::uint8_t>(parameters.additional_information.size()),
                .status = parameters.status};
  put(apr.additional_information, parameters.additional_information);
  put(apr.private_data, parameters.private_data);
  const Answer answer{
      .attribute = wire::CmAttribute::Apr,
      .mad = make_mad(wire::CmAttribute::Apr, header_of(*link.last_lap).transaction_id, apr)};
  if (auto sent = transmit(connection, answer.attribute, answer.mad, now); !sent) {
    return sent;
  }
  link.later_answer = answer;
  link.is_last_lap_answered = true;
  if (parameters.status == wire::AprStatus::Success && link.candidate) {
    link.alternate = link.candidate;
    link.alternate_ack_timeout = link.candidate_ack_timeout;
    link.has_loaded_alternate = true;
  }
  link.candidate.reset();
  enter(connection, State::Established, now);
  return {};
}

Result<void> ConnectionManager::Impl::send_sidr_req(CmId id,
                                                    const SidrRequestParameters& parameters,
                                                    Instant now) {
  const auto allowed = allow(id, Input::SendSidrReq);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (auto checked = check(parameters); !checked) {
    return checked;
  }
  const auto port = port_of(parameters.path);
  if (!port) {
    return std::unexpected(port.error());
  }
  Link link{.port = (*port)->key(),
            .local_ca = (*port)->address().ca_guid,
            .peer = address_of(parameters.path, **port),
            .is_active = true};
  link.service_id = parameters.service_id;
  link.qp_type = QpType::Ud;
  link.primary = parameters.path;
  link.response_timeout = bounded(parameters.timeout);
  link.max_retries = parameters.max_cm_retries;
  link.local_id = new_communication_id();
  link.transaction_id = new_transaction_id(link.port, link.local_id);
  wire::SidrReq request{.request_id = link.local_id,
                        .pkey = parameters.path.pkey,
                        .service_id = parameters.service_id};
  put(request.private_data, parameters.private_data);
  const mad::MadBytes mad = make_mad(wire::CmAttribute::SidrReq, link.transaction_id, request);
  Connection& connection = allowed->connection;
  connection.link = std::move(link);
  if (auto sent = send_and_await(connection, allowed->next, wire::CmAttribute::SidrReq, mad, now);
      !sent) {
    connection.link = {};
    return sent;
  }
  by_local_id_.emplace(connection.link.local_id, id);
  return {};
}

Result<void> ConnectionManager::Impl::send_sidr_rep(CmId id, const SidrReplyParameters& parameters,
                                                    Instant now) {
  const auto allowed = allow(id, Input::SendSidrRep);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (auto checked = check(parameters); !checked) {
    return checked;
  }
  Connection& connection = allowed->connection;
  if (auto sent = transmit(connection, wire::CmAttribute::SidrRep,
                           make_sidr_rep(connection.link, parameters), now);
      !sent) {
    return sent;
  }
  enter(connection, allowed->next, now);
  return {};
}

}  // namespace weft::cm
