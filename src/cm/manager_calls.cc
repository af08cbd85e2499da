// Calls that establish or reject a connection. Each checks the state first, then its parameters;
// state only changes after the message was sent.

#include <utility>

#include "cm/manager.h"
#include "wire/cm/rej.h"
#include "wire/cm/rep.h"

namespace weft::cm {
namespace {

/// What of a connection's end its REQ says.
void set_from_request(Link& link, const RequestParameters& parameters) {
  link.service_id = parameters.service_id;
  link.qp_type = parameters.qp_type;
  link.local_qpn = parameters.qpn;
  link.rq_psn = parameters.starting_psn;
  link.responder_resources = parameters.responder_resources;
  link.initiator_depth = parameters.initiator_depth;
  link.retry_count = parameters.retry_count;
  link.rnr_retry_count = parameters.rnr_retry_count;
  link.remote_response_timeout = parameters.remote_cm_response_timeout;
  link.primary = parameters.primary;
  link.alternate = parameters.alternate;
}

}  // namespace

Result<void> ConnectionManager::Impl::send_req(CmId id, const RequestParameters& parameters,
                                               Instant now) {
  const auto allowed = allow(id, Input::SendReq);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (auto checked = check(parameters); !checked) {
    return checked;
  }
  const auto port = port_of(parameters.primary);
  if (!port) {
    return std::unexpected(port.error());
  }
  const ManagerAddress manager = parameters.manager.value_or(ManagerAddress{parameters.primary});
  const auto manager_port = port_of(manager.path);
  if (!manager_port) {
    return std::unexpected(manager_port.error());
  }
  const PortAddress& address = (*port)->address();
  Link link{.port = (*manager_port)->key(),
            .local_ca = address.ca_guid,
            .peer = address_of(manager.path, **manager_port),
            .is_active = true};
  link.peer.qp = manager.qpn;
  link.peer.qkey = manager.qkey;
  set_from_request(link, parameters);
  link.ack_timeout = ack_timeout(parameters.primary.packet_life_time, address.ack_delay);
  if (link.alternate) {
    const auto other = port_of(*link.alternate);
    if (!other) {
      return std::unexpected(other.error());
    }
    if ((*other)->address().ca_guid != link.local_ca) {
      return fail(ErrorCode::InvalidArgument,
                  "the alternate path begins at another CA: a QP cannot go there");
    }
    link.alternate_ack_timeout =
        ack_timeout(link.alternate->packet_life_time, (*other)->address().ack_delay);
  }
  // R-CM-8: twice the packet lifetime plus the peer's processing time.
  link.response_timeout =
      bounded(TimeoutExponent{parameters.primary.packet_life_time}.duration() * 2 +
              TimeoutExponent{parameters.remote_cm_response_timeout}.duration());
  link.max_retries = parameters.max_cm_retries;
  link.local_id = new_communication_id();
  link.transaction_id = new_transaction_id(link.port, link.local_id);

  Connection& connection = allowed->connection;
  connection.link = std::move(link);
  const mad::MadBytes req = make_req(connection.link, parameters);
  auto sent = send_and_await(connection, allowed->next, wire::CmAttribute::Req, req, now);
  if (!sent) {
    connection.link = {};
    return sent;
  }
  by_local_id_.emplace(connection.link.local_id, id);
  if (parameters.peer_to_peer) {
    connection.link.is_peer_to_peer = true;
    peers_.emplace(parameters.service_id, id);
  }
  return {};
}

Result<void> ConnectionManager::Impl::send_rep(CmId id, const ReplyParameters& parameters,
                                               Instant now) {
  const auto allowed = allow(id, Input::SendRep);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (auto checked = check(parameters); !checked) {
    return checked;
  }
  Connection& connection = allowed->connection;
  Link& link = connection.link;
  const mad::MadBytes rep = make_rep(link, parameters);
  if (auto sent = send_and_await(connection, allowed->next, wire::CmAttribute::Rep, rep, now);
      !sent) {
    return sent;
  }
  link.local_qpn = parameters.qpn;
  link.rq_psn = parameters.starting_psn;
  link.responder_resources = parameters.responder_resources;
  link.initiator_depth = parameters.initiator_depth;
  return {};
}

Result<void> ConnectionManager::Impl::send_rtu(CmId id, ByteSpan private_data, Instant now) {
  const auto allowed = allow(id, Input::SendRtu);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (auto checked = check_length("private data of an RTU", private_data, kRtuPrivateData);
      !checked) {
    return checked;
  }
  Connection& connection = allowed->connection;
  Link& link = connection.link;
  wire::Rtu rtu{.local_communication_id = link.local_id, .remote_communication_id = link.remote_id};
  put(rtu.private_data, private_data);
  const Answer answer{.attribute = wire::CmAttribute::Rtu,
                      .mad = make_mad(wire::CmAttribute::Rtu, link.transaction_id, rtu)};
  if (auto sent = transmit(connection, answer.attribute, answer.mad, now); !sent) {
    return sent;
  }
  link.setup_answer = answer;
  enter(connection, allowed->next, now);
  return {};
}

Result<void> ConnectionManager::Impl::send_rej(CmId id, const RejectParameters& parameters,
                                               Instant now) {
  const auto allowed = allow(id, Input::SendRej);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (auto checked = check(parameters); !checked) {
    return checked;
  }
  Connection& connection = allowed->connection;
  const mad::MadBytes rej = make_rej(connection.link, connection.state, parameters);
  if (auto sent = transmit(connection, wire::CmAttribute::Rej, rej, now); !sent) {
    return sent;
  }
  enter(connection, allowed->next, now);
  return {};
}

Result<void> ConnectionManager::Impl::send_mra(CmId id, std::uint8_t service_timeout,
                                               ByteSpan private_data, Instant now, MraTime time) {
  const auto allowed = allow(id, Input::SendMra);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  if (auto checked = check_length("private data of an MRA", private_data, kMraPrivateData);
      !checked) {
    return checked;
  }
  if (auto checked = check_width("the service timeout", service_timeout, 5); !checked) {
    return checked;
  }
  Connection& connection = allowed->connection;
  Link& link = connection.link;
  wire::Mra mra{.local_communication_id = link.local_id,
                .remote_communication_id = link.remote_id,
                .subject = connection.state == State::ReqRcvd   ? wire::CmSubject::Req
                           : connection.state == State::RepRcvd ? wire::CmSubject::Rep
                                                                : wire::CmSubject::LapOrNothing,
                .service_timeout = service_timeout};
  put(mra.private_data, private_data);
  const Answer answer{.attribute = wire::CmAttribute::Mra,
                      .mad = make_mad(wire::CmAttribute::Mra, link.transaction_id, mra)};
  if (time == MraTime::Now) {
    if (auto sent = transmit(connection, answer.attribute, answer.mad, now); !sent) {
      return sent;
    }
  }
  (is_established(connection.state) ? link.later_answer : link.setup_answer) = answer;
  enter(connection, allowed->next, now);
  return {};
}

Result<void> ConnectionManager::Impl::notify(CmId id, AsyncEventType event, Instant now) {
  const bool is_migration = event == AsyncEventType::PathMigrated;
  if (!is_migration && event != AsyncEventType::CommunicationEstablished) {
    return fail(ErrorCode::InvalidArgument,
                "event {} does not concern a connection; COMM_EST and PATH_MIG do",
                static_cast<unsigned>(event));
  }
  const auto allowed = allow(id, is_migration ? Input::NotifyMigrated : Input::NotifyEstablished);
  if (!allowed) {
    return std::unexpected(allowed.error());
  }
  Connection& connection = allowed->connection;
  if (!is_migration) {
    connection.link.setup_answer.reset();
    enter(connection, allowed->next, now);
    report_event(connection, CmEventType::UserEstablished, {}, {});
    return {};
  }
  Link& link = connection.link;
  if (!link.alternate) {
    return fail(ErrorCode::InvalidArgument,
                "id {} has no alternate path that its QP could have gone to", id.value());
  }
  const Port* const port = find_port(*link.alternate);
  if (port == nullptr || !port->pkey_index(link.alternate->pkey)) {
    return fail(ErrorCode::NoSuchDevice, "the port of id {}'s alternate path was removed",
                id.value());
  }
  std::swap(link.primary, *link.alternate);
  std::swap(link.ack_timeout, link.alternate_ack_timeout);
  link.port = port->key();
  link.peer = address_of(link.primary, *port);
  return {};
}

}  // namespace weft::cm
