#include "ulp/ipoib/connection_table.h"

#include <algorithm>

#include "ulp/ipoib/planted_bug.h"

namespace weft::ipoib {

Flags<wire::IpoibFlag> flags_of(ConnectedMode mode) {
  switch (mode) {
    case ConnectedMode::Reliable:
      return wire::IpoibFlag::ReliableConnected;
    case ConnectedMode::Unreliable:
      return wire::IpoibFlag::UnreliableConnected;
    case ConnectedMode::Both:
      return Flags{wire::IpoibFlag::ReliableConnected} | wire::IpoibFlag::UnreliableConnected;
    case ConnectedMode::None:
      return {};
  }
  return {};
}

std::optional<verbs::QpType> connection_type(ConnectedMode mode, Flags<wire::IpoibFlag> neighbor) {
  const auto both_offer = [own = flags_of(mode), neighbor](wire::IpoibFlag flag) {
    return own.has(flag) && neighbor.has(flag);
  };
  if (both_offer(wire::IpoibFlag::ReliableConnected)) {
    return verbs::QpType::Rc;
  }
  return both_offer(wire::IpoibFlag::UnreliableConnected) ? std::optional{verbs::QpType::Uc}
                                                          : std::nullopt;
}

ConnectionTable::Outcome ConnectionTable::send(const wire::IpoibHardwareAddress& neighbor,
                                               Packet packet, Instant now) {
  const auto type = connection_type(mode_, neighbor.flags);
  if (!type) {
    return Outcome::Datagram;
  }
  const Key key{neighbor.gid, neighbor.qpn};
  auto found = outbound_.find(key);
  if (found == outbound_.end()) {
    if (outbound_.size() >= limits_.connections) {
      return Outcome::Datagram;
    }
    found = outbound_.try_emplace(key).first;
    found->second.id = ++last_id_;
    ++counters_.connects;
    actions_.push_back({.kind = ConnectionAction::Kind::Connect,
                        .id = found->second.id,
                        .neighbor = neighbor,
                        .type = *type,
                        .service_id = service_id_of(neighbor.qpn),
                        .data = own_data()});
  }
  Connection& connection = found->second;
  switch (connection.state) {
    case ConnectionState::Backoff:
      return Outcome::Datagram;
    case ConnectionState::Connecting:
      if (connection.waiting.size() < limits_.packets_of_connection) {
        connection.waiting.push_back(std::move(packet));
      } else {
        ++counters_.dropped;
      }
      return Outcome::Taken;
    case ConnectionState::Connected:
      if (packet.size() > connection.peer_mtu) {
        return Outcome::TooBig;
      }
      connection.due = now + limits_.idle;
      queue(connection, std::move(packet));
      return Outcome::Taken;
  }
  return Outcome::Datagram;
}

std::optional<ConnectionId> ConnectionTable::send_at_once(
    const wire::IpoibHardwareAddress& neighbor, std::size_t bytes, Instant now) {
  const auto found = outbound_.find({neighbor.gid, neighbor.qpn});
  if (!actions_.empty() || found == outbound_.end() ||
      found->second.state != ConnectionState::Connected || bytes > found->second.peer_mtu) {
    return std::nullopt;
  }
  found->second.due = now + limits_.idle;
  return found->second.id;
}

void ConnectionTable::queue(Connection& connection, Packet packet) {
  actions_.push_back(
      {.kind = ConnectionAction::Kind::Send, .id = connection.id, .packet = std::move(packet)});
}

std::optional<std::uint32_t> ConnectionTable::mtu_to(
    const wire::IpoibHardwareAddress& neighbor) const {
  const auto found = outbound_.find({neighbor.gid, neighbor.qpn});
  return found == outbound_.end() || found->second.state != ConnectionState::Connected
             ? std::nullopt
             : std::optional{found->second.peer_mtu - kHeaderBytes};
}

bool ConnectionTable::sends_partial_checksums(const wire::IpoibHardwareAddress& neighbor) const {
  const auto found = outbound_.find({neighbor.gid, neighbor.qpn});
  return found != outbound_.end() && found->second.partial_checksums;
}

bool ConnectionTable::receives_partial_checksums(ConnectionId id) const {
  const auto found = inbound_.find(id);
  return found != inbound_.end() && found->second;
}

ConnectionTable::Connection* ConnectionTable::find(ConnectionId id) {
  const auto found =
      std::ranges::find_if(outbound_, [&](const auto& one) { return one.second.id == id; });
  return found == outbound_.end() ? nullptr : &found->second;
}

void ConnectionTable::step(Connection& connection, ConnectionEvent event, Instant now) {
  const auto row = std::ranges::find_if(kConnectionRows, [&](const ConnectionRow& one) {
    return one.state == connection.state && one.event == event;
  });
  if (row == kConnectionRows.end()) {
    return;
  }
  connection.state = row->next;
  const bool is_connected = connection.state == ConnectionState::Connected;
  connection.due = now + (is_connected ? limits_.idle : limits_.backoff);
  counters_.refused += is_connected ? 0U : 1U;
  for (Packet& packet : std::exchange(connection.waiting, {})) {
    if (is_connected && packet.size() <= connection.peer_mtu) {
      queue(connection, std::move(packet));
    } else {
      ++counters_.dropped;  // its sender will send it again, and learn the MTU then
    }
  }
}

void ConnectionTable::established(ConnectionId id, ByteSpan private_data, Instant now) {
  Connection* const connection = find(id);
  if (connection == nullptr) {
    return;
  }
  const auto data = wire::parse<ConnectionData>(private_data);
  if (!data || data->receive_mtu <= kHeaderBytes) {
    actions_.push_back({.kind = ConnectionAction::Kind::Disconnect, .id = id});
    return step(*connection, ConnectionEvent::Refused, now);
  }
  connection->peer_mtu = std::min(data->receive_mtu, limits_.mtu + kHeaderBytes);
  connection->partial_checksums =
      limits_.partial_checksums && takes_partial_checksums(private_data);
  step(*connection, ConnectionEvent::Established, now);
}

void ConnectionTable::refused(ConnectionId id, Instant now) {
  if (Connection* const connection = find(id)) {
    step(*connection, ConnectionEvent::Refused, now);
  }
}

void ConnectionTable::lost(ConnectionId id, Instant now) {
  Connection* const connection = find(id);
  if (connection != nullptr && !planted(PlantedBug::LostConnectionKept)) {
    step(*connection, ConnectionEvent::Lost, now);
  }
}

std::optional<Gid> ConnectionTable::peer_of(ConnectionId id) const {
  const auto found =
      std::ranges::find_if(outbound_, [&](const auto& one) { return one.second.id == id; });
  return found == outbound_.end() ? std::nullopt : std::optional{found->first.first};
}

Result<ConnectionData> ConnectionTable::accept(ConnectionId id, ByteSpan private_data) {
  const auto data = wire::parse<ConnectionData>(private_data);
  if (!data) {
    return std::unexpected(data.error());
  }
  if (mode_ == ConnectedMode::None) {
    return fail(ErrorCode::NotSupported, "the interface sends datagrams only");
  }
  if (data->receive_mtu <= kHeaderBytes) {
    return fail(ErrorCode::InvalidArgument, "a receive MTU of {} takes no packet",
                data->receive_mtu);
  }
  if (inbound_.size() >= limits_.connections) {
    return fail(ErrorCode::OutOfMemory, "{} connections are there, which is the limit",
                inbound_.size());
  }
  inbound_.emplace(id, limits_.partial_checksums && takes_partial_checksums(private_data));
  ++counters_.accepted;
  return own_data();
}

void ConnectionTable::end_all() {
  for (auto& [key, connection] : outbound_) {
    counters_.dropped += connection.waiting.size();
    if (connection.state != ConnectionState::Backoff) {
      actions_.push_back({.kind = ConnectionAction::Kind::Disconnect, .id = connection.id});
    }
  }
  outbound_.clear();
}

void ConnectionTable::handle_timeout(Instant now) {
  for (auto one = outbound_.begin(); one != outbound_.end();) {
    const auto current = one++;
    if (current->second.due > now) {
      continue;
    }
    if (current->second.state == ConnectionState::Connected) {
      ++counters_.idle_ended;
      actions_.push_back({.kind = ConnectionAction::Kind::Disconnect, .id = current->second.id});
    }
    outbound_.erase(current);
  }
}

Instant ConnectionTable::deadline() const {
  Instant first = Instant::never();
  for (const auto& [key, connection] : outbound_) {
    first = std::min(first, connection.due);
  }
  return first;
}

std::optional<ConnectionAction> ConnectionTable::poll_action() {
  if (actions_.empty()) {
    return std::nullopt;
  }
  ConnectionAction action = std::move(actions_.front());
  actions_.pop_front();
  return action;
}

}  // namespace weft::ipoib
