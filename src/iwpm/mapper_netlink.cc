// What the kernel says to the mapper.

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "iwpm/mapper.h"
#include "iwpm/planted_bug.h"

namespace weft::iwpm {

using wire::iwpm::DaemonError;
using wire::iwpm::kClientC4iw;
using wire::iwpm::kClientIwcm;
using wire::iwpm::Operation;
using wire::netlink::Message;

const std::array<Mapper::Service, 7> Mapper::kServices{
    {
     {Operation::RegisterPid, &Mapper::take_register_pid},
     {Operation::AddMapping, &Mapper::take_add_mapping},
     {Operation::QueryMapping, &Mapper::take_query_mapping},
     {Operation::RemoveMapping, &Mapper::take_remove_mapping},
     {Operation::Mapinfo, &Mapper::take_mapinfo},
     {Operation::MapinfoCount, &Mapper::take_mapinfo_count},
     {Operation::Hello, &Mapper::take_hello},
     }
};

template <class Message>
void Mapper::send(std::uint8_t client, const Message& message, Operation operation) {
  std::vector<std::byte> datagram;
  if (wire::iwpm::append(
          datagram, wire::iwpm::kMessageRoom,
          {.client = client, .sequence = clients_[client].sequence++, .port = options_.port},
          message, spoken_abi(), operation)) {
    services_.send_to_kernel(std::move(datagram));
  }
}

void Mapper::send_error(std::uint8_t client, std::uint32_t sequence, DaemonError error) {
  send(client,
       wire::iwpm::HandleError{.sequence = sequence, .error = static_cast<std::uint16_t>(error)});
}

void Mapper::send_hello(Instant now) {
  --hellos_left_;
  next_hello_ = now + options_.hello_interval;
  // Number 0, each time: an error that names it says that the kernel does not know the operation.
  clients_[kClientIwcm].sequence = 0;
  send(kClientIwcm, wire::iwpm::Hello{.abi = options_.abi});
}

void Mapper::handle_netlink(ByteSpan datagram, Instant now) {
  while (const auto message = wire::netlink::take_message(datagram)) {
    if (message->header.type == wire::netlink::kTypeDone) {
      return;
    }
    if (message->header.type == wire::netlink::kTypeError) {
      take_error(*message, now);
      return;
    }
    const std::uint8_t client = wire::iwpm::client_of(message->header.type);
    const Operation operation = wire::iwpm::operation_of(message->header.type);
    const auto found = std::ranges::find(kServices, operation, &Service::operation);
    if ((client != kClientIwcm && client != kClientC4iw) || found == kServices.end()) {
      return;
    }
    (this->*found->handler)(*message, client, now);
  }
}

void Mapper::take_error(const Message& message, Instant now) {
  if (message.header.sequence == 0 && !abi_) {
    agree_on(wire::iwpm::kAbiMin, now);
  }
}

void Mapper::take_hello(const Message& message, std::uint8_t client, Instant now) {
  const auto hello = wire::iwpm::parse<wire::iwpm::Hello>(message.payload);
  if (!hello) {
    send_error(client, message.header.sequence, DaemonError::InvalidMessage);
    return;
  }
  if (hello->abi > options_.abi || hello->abi < wire::iwpm::kAbiMin) {
    services_.log(fmt::format("iwpm: the kernel speaks version {}, this mapper 3 to {}", hello->abi,
                              options_.abi));
    send_error(client, message.header.sequence, DaemonError::VersionMismatch);
    return;
  }
  if (next_hello_ != Instant::never()) {  // not for a second answer
    agree_on(hello->abi, now);
  }
}

void Mapper::agree_on(std::uint16_t abi, Instant now) {
  abi_ = abi;
  next_hello_ = Instant::never();
  for (Client& client : clients_) {
    client.replays_left = options_.replays;
  }
  begin_replay(kClientIwcm, now);
  if (abi == wire::iwpm::kAbiMin) {
    begin_replay(kClientC4iw, now);
  }
}

void Mapper::handle_overflow(Instant now) {
  if (!abi_) {
    return;  // hellos are repeated
  }
  services_.log("iwpm: messages of the kernel were lost; it is asked for all mappings");
  clients_[kClientIwcm].replays_left = options_.replays;
  hold(kClientIwcm, now);
  begin_replay(kClientIwcm, now);
  if (*abi_ == wire::iwpm::kAbiMin) {
    clients_[kClientC4iw].replays_left = options_.replays;
    hold(kClientC4iw, now);
    begin_replay(kClientC4iw, now);
  }
}

void Mapper::hold(std::uint8_t client, Instant now) {
  clients_[client].is_holding = true;
  clients_[client].holds_until = now + options_.holding;
}

void Mapper::release_held(std::uint8_t client, Instant now) {
  clients_[client].is_holding = false;
  clients_[client].holds_until = Instant::never();
  for (const auto& datagram : std::exchange(clients_[client].held, {})) {
    handle_netlink(datagram, now);
  }
}

bool Mapper::holds_back(const Message& message, std::uint8_t client, const SocketAddress& local) {
  Client& state = clients_[client];
  if (!state.is_holding || state.held.size() >= options_.exchanges.most ||
      ports_.find(local) != nullptr) {
    return false;
  }
  state.held.emplace_back(message.whole.begin(), message.whole.end());
  return true;
}

// Records do not say of which replay they are, so that there is one at a time: two would count each
// user twice.
void Mapper::begin_replay(std::uint8_t client, Instant now) {
  Client& state = clients_[client];
  if (state.is_replaying) {
    state.is_stale = true;
    return;
  }
  state.is_replaying = true;
  state.is_stale = false;
  state.records = 0;
  state.asked_at = now;
  state.replay_due = now + options_.replay_wait;
  ports_.for_each([&](MappedPort& port) {
    if (port.client == client) {
      port.replayed = 0;
      port.added_since = exchanges_.asking(port.local);  // the kernel has no record yet
      port.is_from_before = true;
    }
  });
  send(client, wire::iwpm::MapinfoRequest{.library_name = std::string{wire::iwpm::kLibraryName},
                                          .library_version = spoken_abi()});
}

/// The last one has missed something; as often as there is patience.
void Mapper::repeat_replay(std::uint8_t client, Instant now) {
  Client& state = clients_[client];
  state.is_replaying = false;
  state.replay_due = Instant::never();
  if (!state.is_stale) {
    if (state.replays_left == 0) {
      release_held(client, now);
      return;
    }
    --state.replays_left;
  }
  if (state.is_holding) {
    hold(client, now);
  }
  begin_replay(client, now);
}

void Mapper::take_replay_due(std::uint8_t client, Instant now) {
  if (clients_[client].is_replaying) {
    repeat_replay(client, now);  // the number of records was lost
  } else {
    begin_replay(client, now);
  }
}

void Mapper::take_mapinfo(const Message& message, std::uint8_t client, Instant /*now*/) {
  const auto record = wire::iwpm::parse<wire::iwpm::Mapinfo>(message.payload, spoken_abi());
  if (!record) {
    send_error(client, message.header.sequence, DaemonError::InvalidMessage);
    return;
  }
  if (!clients_[client].is_replaying) {
    return;  // of a replay that was given up
  }
  MappedPort* port = ports_.find(record->local);
  if (port == nullptr) {
    const auto opened = reopen(*record, client);
    if (!opened) {
      services_.log(fmt::format("iwpm: {} cannot be mapped to {} again: {}",
                                wire::iwpm::to_string(record->local),
                                wire::iwpm::to_string(record->mapped), opened.error().reason));
      send_error(client, message.header.sequence, DaemonError::CreateMapping);
      return;
    }
    port = *opened;
  } else if (!port->local.is_same(record->local) || !port->mapped.is_same(record->mapped) ||
             port->client != client) {
    send_error(client, message.header.sequence, DaemonError::DuplicateMapping);
    return;
  }
  ++clients_[client].records;
  ++port->replayed;
  if (!planted(PlantedBug::ReplayNotCounted)) {
    port->references = std::max(port->references, port->replayed + port->added_since);
  }
}

void Mapper::take_mapinfo_count(const Message& message, std::uint8_t client, Instant now) {
  const auto count = wire::iwpm::parse<wire::iwpm::MapinfoCount>(message.payload);
  if (!count) {
    send_error(client, message.header.sequence, DaemonError::InvalidMessage);
    return;
  }
  Client& state = clients_[client];
  send(client,
       wire::iwpm::MapinfoCountAnswer{
           .sequence = message.header.sequence, .sent = count->sent, .received = state.records});
  if (!state.is_replaying) {
    return;
  }
  if (state.is_stale || count->sent != state.records) {
    if (state.replays_left != 0) {
      hold(client, now);
    }
    repeat_replay(client, now);
    return;
  }
  end_replay(client, now);
  release_held(client, now);
}

// The kernel's records are all that it uses, and users that came since it was asked. A user that
// came just before may be one whose record the kernel had not yet made; for `settling` its mapping
// only gains users, and the kernel is asked again after that, however often users come.
void Mapper::end_replay(std::uint8_t client, Instant now) {
  Client& state = clients_[client];
  state.is_replaying = false;
  state.replay_due = Instant::never();
  const Instant settled = state.asked_at - options_.settling;
  std::vector<MappedPort*> unused;
  ports_.for_each([&](MappedPort& port) {
    if (port.client != client || !port.is_from_before || planted(PlantedBug::ReplayNotCounted)) {
      return;
    }
    const unsigned users = port.replayed + port.added_since;
    if (port.last_added > settled) {
      if (users != port.references) {
        state.replay_due = now + options_.settling;
      }
      return;
    }
    port.references = users;
    if (port.references == 0) {
      unused.push_back(&port);
    }
  });
  for (MappedPort* port : unused) {
    release(*port);
  }
}

void Mapper::take_register_pid(const Message& message, std::uint8_t client, Instant /*now*/) {
  const auto request = wire::iwpm::parse<wire::iwpm::RegisterPid>(message.payload);
  if (!request) {
    send_error(client, message.header.sequence, DaemonError::InvalidMessage);
    return;
  }
  if (request->library_name != wire::iwpm::kLibraryName) {
    send_error(client, message.header.sequence, DaemonError::UserLibraryInfo);
    return;
  }
  if (request->device_name.empty()) {
    send_error(client, message.header.sequence, DaemonError::ClientDeviceInfo);
    return;
  }
  clients_[client].is_registered = true;
  send(client, wire::iwpm::RegisterPidAnswer{.sequence = message.header.sequence,
                                             .device_name = request->device_name,
                                             .library_name = std::string{wire::iwpm::kLibraryName},
                                             .library_version = spoken_abi(),
                                             .error = 0});
}

bool Mapper::is_registered(std::uint8_t client, std::uint32_t sequence) {
  if (!clients_[client].is_registered) {
    send_error(client, sequence, DaemonError::ClientDeviceInfo);
    return false;
  }
  return true;
}

void Mapper::take_add_mapping(const Message& message, std::uint8_t client, Instant now) {
  const std::uint32_t sequence = message.header.sequence;
  const auto request = wire::iwpm::parse<wire::iwpm::AddMapping>(message.payload, spoken_abi());
  if (!request) {
    send_error(client, sequence, DaemonError::InvalidMessage);
    return;
  }
  if (!is_registered(client, sequence) || holds_back(message, client, request->local)) {
    return;
  }
  MappedPort* port = ports_.find(request->local);
  if (port == nullptr) {
    const auto created = create(request->local, client, request->flags, now);
    if (!created) {
      services_.log(fmt::format("iwpm: {} is not mapped: {}", wire::iwpm::to_string(request->local),
                                created.error().reason));
      send_error(client, sequence, DaemonError::CreateMapping);
      return;
    }
    port = *created;
  } else if (port->is_wildcard() && port->local.is_same(request->local) && port->client == client) {
    add_user(*port, now);  // as iwpmd: each device listens on any address
  } else {
    send_error(client, sequence, DaemonError::DuplicateMapping);
    return;
  }
  send(client,
       wire::iwpm::AddMappingAnswer{
           .sequence = sequence, .local = port->local, .mapped_local = port->mapped, .error = 0});
}

void Mapper::take_query_mapping(const Message& message, std::uint8_t client, Instant now) {
  const std::uint32_t sequence = message.header.sequence;
  const auto request = wire::iwpm::parse<wire::iwpm::QueryMapping>(message.payload, spoken_abi());
  if (!request) {
    send_error(client, sequence, DaemonError::InvalidMessage);
    return;
  }
  if (!is_registered(client, sequence) || holds_back(message, client, request->local)) {
    return;
  }
  MappedPort* port = ports_.find(request->local);
  const bool is_shared = port != nullptr;
  const bool fits = request->remote.is_ip() && request->remote.family == request->local.family &&
                    !request->local.is_wildcard();
  if (!fits || (is_shared && (port->is_wildcard() || port->client != client))) {
    send_error(client, sequence, DaemonError::CreateMapping);
    return;
  }
  if (is_shared) {
    add_user(*port, now);
  } else {
    const auto created = create(request->local, client, request->flags, now);
    if (!created) {
      services_.log(fmt::format("iwpm: {} is not mapped: {}", wire::iwpm::to_string(request->local),
                                created.error().reason));
      send_error(client, sequence, DaemonError::CreateMapping);
      return;
    }
    port = *created;
  }
  ask_peer(
      *port,
      {.client = client, .sequence = sequence, .local = request->local, .remote = request->remote},
      now);
}

void Mapper::take_remove_mapping(const Message& message, std::uint8_t client, Instant /*now*/) {
  const auto request = wire::iwpm::parse<wire::iwpm::RemoveMapping>(message.payload);
  if (!request) {
    send_error(client, message.header.sequence, DaemonError::InvalidMessage);
    return;
  }
  // A connection that was never mapped is removed, too.
  MappedPort* port = ports_.find_same(request->local);
  if (port == nullptr || port->client != client || planted(PlantedBug::RemovalIgnored)) {
    return;
  }
  if (--port->references == 0) {
    release(*port);
  }
}

void Mapper::answer_query(const Asker& asker, const SocketAddress& mapped_remote, DaemonError error,
                          Instant now) {
  MappedPort* port = ports_.find_same(asker.local);
  if (port == nullptr) {  // removed meanwhile
    send_error(asker.client, asker.sequence, DaemonError::UnknownMapping);
    return;
  }
  port->last_added = now;
  send(asker.client, wire::iwpm::ConnectionInfo{.sequence = asker.sequence,
                                                .local = port->local,
                                                .remote = asker.remote,
                                                .mapped_local = port->mapped,
                                                .mapped_remote = mapped_remote,
                                                .error = static_cast<std::uint16_t>(error)});
}

void Mapper::tell_remote_info(const MappedPort& port, const wire::iwpm::PeerMessage& request) {
  send(port.client,
       wire::iwpm::ConnectionInfo{.sequence = 0,
                                  .local = port.local,
                                  .remote = request.connecting,
                                  .mapped_local = port.mapped,
                                  .mapped_remote = request.mapped_connecting,
                                  .error = 0},
       Operation::RemoteInfo);
}

}  // namespace weft::iwpm
