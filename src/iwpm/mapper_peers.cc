// What mappers of two hosts say to each other: a request is answered by an accept or a reject, and
// an accept by an acknowledgement.

#include <fmt/format.h>

#include <utility>

#include "iwpm/mapper.h"
#include "iwpm/planted_bug.h"

namespace weft::iwpm {

using wire::IwpmMessageType;
using wire::iwpm::DaemonError;
using wire::iwpm::PeerMessage;

void Mapper::ask_peer(const MappedPort& port, const Asker& asker, Instant now) {
  Exchange exchange;
  exchange.socket = PeerSocket::Client;
  exchange.peer = asker.remote.with_port(wire::iwpm::kPeerPort);
  exchange.asker = asker;
  do {
    exchange.handle = random_();
  } while (exchanges_.find_own(exchange.handle) != nullptr);
  exchange.sent = {.type = IwpmMessageType::Request,
                   .handle = exchange.handle,
                   .connecting = asker.local,
                   .accepting = asker.remote,
                   .mapped_connecting = port.mapped};
  const Exchange* begun = exchanges_.begin_asking(exchange, now);
  if (begun == nullptr) {
    answer_query(asker, asker.remote, DaemonError::RemoteQueryReject, now);
    return;
  }
  services_.send_to_peer(begun->socket, begun->peer, wire::iwpm::to_datagram(begun->sent));
}

void Mapper::handle_datagram(PeerSocket socket, const SocketAddress& from, ByteSpan datagram,
                             Instant now) {
  const auto message = wire::iwpm::parse_peer_message(datagram);
  if (!message) {
    services_.log(fmt::format("iwpm: a datagram from {} is ignored: {}",
                              wire::iwpm::to_string(from), message.error().reason));
    return;
  }
  switch (message->type) {
    case IwpmMessageType::Request:
      take_request(socket, from, *message, now);
      break;
    case IwpmMessageType::Accept:
      take_accept(socket, from, *message, now);
      break;
    case IwpmMessageType::Ack:
      take_ack(*message, now);
      break;
    case IwpmMessageType::Reject:
      take_reject(*message, now);
      break;
  }
}

void Mapper::take_request(PeerSocket socket, const SocketAddress& from, const PeerMessage& message,
                          Instant now) {
  const Exchange* known = exchanges_.find_peers(message);
  if (known != nullptr && !planted(PlantedBug::DuplicateRequestTold)) {
    // Our accept, or its acknowledgement, was lost; or the request came twice.
    services_.send_to_peer(socket, from, wire::iwpm::to_datagram(known->sent));
    return;
  }
  const MappedPort* port = ports_.find(message.accepting);
  PeerMessage answer = message;
  answer.mapped_connecting = {};
  if (port == nullptr) {
    answer.type = IwpmMessageType::Reject;
    services_.send_to_peer(socket, from, wire::iwpm::to_datagram(answer));
    return;
  }
  answer.type = IwpmMessageType::Accept;
  // Who listens on any address is reached at the one that was asked for.
  answer.accepting =
      port->is_wildcard() ? message.accepting.with_port(port->mapped.port) : port->mapped;
  if (known == nullptr) {
    Exchange exchange;
    exchange.handle = message.handle;
    exchange.socket = socket;
    exchange.peer = from;
    exchange.sent = answer;
    if (exchanges_.begin_offering(exchange, now) == nullptr) {
      return;  // too many: the peer asks again
    }
  }
  // The kernel first: the connection may come as soon as the peer has the accept.
  tell_remote_info(*port, message);
  services_.send_to_peer(socket, from, wire::iwpm::to_datagram(answer));
}

void Mapper::take_accept(PeerSocket socket, const SocketAddress& from, const PeerMessage& message,
                         Instant now) {
  Exchange* exchange = exchanges_.find_own(message.handle);
  if (exchange == nullptr || !exchange->asker.local.is_same(message.connecting)) {
    return;
  }
  PeerMessage ack = message;
  ack.type = IwpmMessageType::Ack;
  services_.send_to_peer(socket, from, wire::iwpm::to_datagram(ack));
  if (exchange->state != ExchangeState::Asking) {
    return;  // the acknowledgement was lost
  }
  exchanges_.close(*exchange, now);
  answer_query(exchange->asker, message.accepting, DaemonError::None, now);
}

void Mapper::take_ack(const PeerMessage& message, Instant now) {
  Exchange* exchange = exchanges_.find_peers(message);
  if (exchange != nullptr && exchange->state == ExchangeState::Offering &&
      exchange->sent.accepting.is_same(message.accepting)) {
    exchanges_.close(*exchange, now);
  }
}

void Mapper::take_reject(const PeerMessage& message, Instant now) {
  Exchange* exchange = exchanges_.find_own(message.handle);
  if (exchange == nullptr || exchange->state != ExchangeState::Asking ||
      !exchange->asker.local.is_same(message.connecting)) {
    return;
  }
  exchanges_.close(*exchange, now);
  answer_query(exchange->asker, exchange->asker.remote, DaemonError::RemoteQueryReject, now);
}

}  // namespace weft::iwpm
