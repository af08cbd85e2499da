#include "iwpm/mapper.h"

#include <fmt/format.h>

#include <algorithm>

#include "iwpm/planted_bug.h"

namespace weft::iwpm {

using wire::iwpm::DaemonError;
using wire::iwpm::kFlagNoPortMap;

Mapper::Mapper(MapperServices& services, const MapperOptions& options)
    : services_(services),
      options_(options),
      random_(options.seed),
      exchanges_(options.exchanges) {}

void Mapper::start(Instant now) {
  hellos_left_ = options_.hellos;
  send_hello(now);
}

void Mapper::stop() {
  ports_.for_each([&](const MappedPort& port) {
    if (port.port) {
      services_.release_port(*port.port);
    }
  });
  ports_ = MappedPorts{};
  next_hello_ = Instant::never();
}

void Mapper::handle_timeout(Instant now) {
  if (now >= next_hello_) {
    if (hellos_left_ != 0) {
      send_hello(now);
    } else {
      agree_on(wire::iwpm::kAbiMin, now);
    }
  }
  for (const std::uint8_t client : {wire::iwpm::kClientIwcm, wire::iwpm::kClientC4iw}) {
    if (clients_[client].is_holding && now >= clients_[client].holds_until) {
      release_held(client, now);
    }
    if (now >= clients_[client].replay_due) {
      take_replay_due(client, now);
    }
  }
  for (const Exchanges::Due& due : exchanges_.take_due(now)) {
    const Exchange& exchange = due.exchange;
    if (!due.is_given_up) {
      services_.send_to_peer(exchange.socket, exchange.peer,
                             wire::iwpm::to_datagram(exchange.sent));
    } else if (exchange.state == ExchangeState::Asking) {
      // The kernel would wait longer; a peer without a mapper is reached unmapped.
      answer_query(exchange.asker, exchange.asker.remote, DaemonError::RemoteQueryReject, now);
    }
  }
}

Instant Mapper::poll_deadline() const {
  Instant first = std::min(next_hello_, exchanges_.first_deadline());
  for (const Client& client : clients_) {
    first = std::min({first, client.replay_due, client.holds_until});
  }
  return first;
}

Result<MappedPort*> Mapper::create(const SocketAddress& local, std::uint8_t client,
                                   std::uint32_t flags, Instant now) {
  if (!local.is_ip()) {
    return fail(ErrorCode::InvalidArgument, "only IP addresses are mapped");
  }
  if (!local.is_wildcard() && !services_.owns_address(local.ip)) {
    return fail(ErrorCode::AddressNotAvailable, "{} is no address of this host",
                to_string(local.ip));
  }
  if (ports_.size() >= options_.most_mappings) {
    return fail(ErrorCode::OutOfMemory, "{} addresses are mapped already", ports_.size());
  }
  MappedPort port;
  port.local = local;
  port.mapped = local;
  port.client = client;
  port.flags = flags;
  if ((flags & kFlagNoPortMap) == 0) {
    const auto reserved = services_.reserve_port(local.ip.family(), 0);
    if (!reserved) {
      return std::unexpected(reserved.error());
    }
    port.port = reserved->handle;
    port.mapped.port = reserved->number;
  }
  MappedPort& added = ports_.add(port);
  add_user(added, now);
  return &added;
}

Result<MappedPort*> Mapper::reopen(const wire::iwpm::Mapinfo& record, std::uint8_t client) {
  if (!record.local.is_ip() || record.local.family != record.mapped.family) {
    return fail(ErrorCode::InvalidArgument, "a mapping has two addresses of one family");
  }
  if (!record.local.is_wildcard() && !services_.owns_address(record.local.ip)) {
    return fail(ErrorCode::AddressNotAvailable, "{} is no address of this host",
                to_string(record.local.ip));
  }
  if (ports_.size() >= options_.most_mappings) {
    return fail(ErrorCode::OutOfMemory, "{} addresses are mapped already", ports_.size());
  }
  MappedPort port;
  port.local = record.local;
  port.mapped = record.mapped;
  port.client = client;
  port.flags = record.flags;
  port.references = 1;
  // A kernel of version 3 cannot say that there is no port; equal addresses do.
  const bool has_port =
      (record.flags & kFlagNoPortMap) == 0 && !record.local.is_same(record.mapped);
  if (has_port) {
    const auto reserved = services_.reserve_port(record.mapped.ip.family(), record.mapped.port);
    if (!reserved) {
      return std::unexpected(reserved.error());
    }
    port.port = reserved->handle;
  }
  return &ports_.add(port);
}

void Mapper::add_user(MappedPort& port, Instant now) {
  if (port.references != 0 && planted(PlantedBug::ReferenceForgotten)) {
    return;
  }
  ++port.references;
  ++port.added_since;
  port.last_added = now;
}

void Mapper::release(MappedPort& port) {
  if (port.port) {
    services_.release_port(*port.port);
  }
  ports_.remove(port);
}

}  // namespace weft::iwpm
