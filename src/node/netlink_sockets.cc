#include "node/netlink_sockets.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>

#include "base/assert.h"

namespace weft::node {
namespace {

/// The first group of a mask, which is the one that netlink sends to.
[[nodiscard]] std::uint32_t group_of(std::uint32_t mask) {
  return mask == 0 ? 0 : static_cast<std::uint32_t>(std::countr_zero(mask)) + 1;
}

[[nodiscard]] bool is_group(std::uint32_t group) {
  return group >= 1 && group <= NetlinkSockets::kGroups;
}

[[nodiscard]] std::uint32_t mask_of(std::uint32_t group) {
  return is_group(group) ? 1U << (group - 1) : 0;
}

constexpr std::array kOptions = {NetlinkOption::PacketInfo,
                                 NetlinkOption::BroadcastError,
                                 NetlinkOption::NoOverruns,
                                 NetlinkOption::CapAcknowledgements,
                                 NetlinkOption::ExtendedAcknowledgements,
                                 NetlinkOption::StrictChecks};

[[nodiscard]] std::uint32_t bit_of(NetlinkOption option) {
  return 1U << std::to_underlying(option);
}

}  // namespace

bool NetlinkSockets::Socket::hears_kernel(std::uint32_t group) const {
  return (groups & mask_of(group)) != 0 &&
         (is_privileged || group != std::to_underlying(NetlinkGroup::LocalService));
}

std::optional<NetlinkSockets::Id> NetlinkSockets::open(fabric::NodeIndex host, std::uint32_t pid,
                                                       std::uint32_t type, bool is_privileged) {
  if (sockets_.size() >= kMaxSockets) {
    return std::nullopt;
  }
  const Id id = ++last_;
  Socket& socket = sockets_[id];
  socket.host = host;
  socket.pid = pid;
  socket.type = type;
  socket.is_privileged = is_privileged;
  return id;
}

void NetlinkSockets::close(Id socket) {
  const auto found = sockets_.find(socket);
  if (found == sockets_.end()) {
    return;
  }
  const NetlinkSender gone = sender(socket);
  if (gone.port != 0) {
    ports_.erase({gone.host, gone.port});
  }
  sockets_.erase(found);
  if (gone.port != 0) {
    for (const auto& [client, service] : services_) {
      if (service != nullptr) {
        service->closed(gone);
      }
    }
  }
}

std::vector<NetlinkSockets::Id> NetlinkSockets::sockets_of(fabric::NodeIndex host) const {
  std::vector<Id> ids;
  for (const auto& [id, socket] : sockets_) {
    if (socket.host == host) {
      ids.push_back(id);
    }
  }
  return ids;
}

int NetlinkSockets::take_port(Id id, Socket& socket, std::uint32_t port) {
  if (!ports_.emplace(Address{socket.host, port}, id).second) {
    return -EADDRINUSE;
  }
  socket.port = port;
  return 0;
}

/// The number of its process if no socket of the host has it, else one that no process can have.
void NetlinkSockets::choose_port(Id id, Socket& socket) {
  std::int32_t spare = kFirstSpare;
  auto port = socket.pid;
  while (port == 0 || take_port(id, socket, port) != 0) {
    port = static_cast<std::uint32_t>(spare--);  // fewer sockets than numbers
  }
}

int NetlinkSockets::bind(Id socket, std::uint32_t port, std::uint32_t groups) {
  Socket& own = sockets_.at(socket);
  if (own.port != 0 && port != own.port) {
    return -EINVAL;
  }
  if (own.port == 0) {
    if (port == 0) {
      choose_port(socket, own);
    } else if (const int error = take_port(socket, own, port); error != 0) {
      return error;
    }
  }
  own.groups = groups;
  return 0;
}

int NetlinkSockets::connect(Id socket, std::uint32_t port, std::uint32_t groups) {
  Socket& own = sockets_.at(socket);
  if (own.port == 0) {
    choose_port(socket, own);
  }
  own.peer = destination(port, groups);
  own.is_connected = true;
  return 0;
}

void NetlinkSockets::disconnect(Id socket) {
  Socket& own = sockets_.at(socket);
  own.peer = {};
  own.is_connected = false;
}

int NetlinkSockets::join(Id socket, std::uint32_t group) {
  if (!is_group(group)) {
    return -EINVAL;
  }
  sockets_.at(socket).groups |= mask_of(group);
  return 0;
}

int NetlinkSockets::leave(Id socket, std::uint32_t group) {
  if (!is_group(group)) {
    return -EINVAL;
  }
  sockets_.at(socket).groups &= ~mask_of(group);
  return 0;
}

int NetlinkSockets::set_option(Id socket, std::uint32_t option, bool is_set) {
  if (std::ranges::find(kOptions, static_cast<NetlinkOption>(option)) == kOptions.end()) {
    return -ENOPROTOOPT;
  }
  const std::uint32_t bit = bit_of(static_cast<NetlinkOption>(option));
  std::uint32_t& options = sockets_.at(socket).options;
  options = is_set ? options | bit : options & ~bit;
  return 0;
}

void NetlinkSockets::set_room(Id socket, std::uint32_t octets) {
  sockets_.at(socket).room = std::clamp(octets, kLeastRoom, kMostRoom);
}

NetlinkSocketState NetlinkSockets::describe(Id socket) const {
  const Socket& own = sockets_.at(socket);
  return {.type = own.type,
          .port = own.port,
          .groups = own.groups,
          .peer_port = own.peer.port,
          .peer_groups = mask_of(own.peer.group),
          .options = own.options};
}

NetlinkSockets::Destination NetlinkSockets::default_destination(Id socket) const {
  return sockets_.at(socket).peer;
}

NetlinkSockets::Destination NetlinkSockets::destination(std::uint32_t port, std::uint32_t groups) {
  return {.port = port, .group = group_of(groups)};
}

NetlinkSender NetlinkSockets::sender(Id socket) const {
  const Socket& own = sockets_.at(socket);
  return {.host = own.host, .port = own.port, .pid = own.pid, .is_privileged = own.is_privileged};
}

bool NetlinkSockets::has_option(Id socket, NetlinkOption option) const {
  return (sockets_.at(socket).options & bit_of(option)) != 0;
}

NetlinkSockets::Sent NetlinkSockets::send(Id socket, const Destination& to, ByteSpan datagram) {
  Socket& own = sockets_.at(socket);
  if (own.port == 0) {
    choose_port(socket, own);
  }
  const auto made = [&](std::uint32_t group) {
    return NetlinkDatagram{
        .port = own.port,
        .pid = own.pid,
        .group = group,
        .bytes = {datagram.begin(), datagram.end()}
    };
  };
  if (to.group != 0) {
    // What comes of it nobody is told: Linux reports the port's outcome.
    static_cast<void>(broadcast(own.host, to, socket, made(to.group)));
  }
  if (to.port == 0) {
    return {.is_for_kernel = true};
  }
  const auto found = ports_.find({own.host, to.port});
  if (found != ports_.end()) {
    // A socket that is connected hears its peer alone.
    const Socket& other = sockets_.at(found->second);
    if (other.is_connected && other.peer.port != own.port) {
      return {.error = -ECONNREFUSED};
    }
  }
  return {.error = deliver({own.host, to.port}, made(0))};
}

bool NetlinkSockets::answer(Id socket, std::vector<std::vector<std::byte>> datagrams) {
  const auto found = sockets_.find(socket);
  if (found == sockets_.end()) {
    return false;
  }
  if (!datagrams.empty() && !has_room(found->second)) {
    overrun(socket, found->second);
    return false;
  }
  for (std::vector<std::byte>& bytes : datagrams) {
    put(socket, found->second, {.bytes = std::move(bytes)});
  }
  return true;
}

NetlinkService* NetlinkSockets::service(host_view::Client client) const {
  const auto found = services_.find(client);
  return found == services_.end() ? nullptr : found->second;
}

bool NetlinkSockets::has_listeners(fabric::NodeIndex host, NetlinkGroup group) const {
  return std::ranges::any_of(sockets_, [&](const auto& entry) {
    return entry.second.host == host && entry.second.hears_kernel(std::to_underlying(group));
  });
}

int NetlinkSockets::multicast(fabric::NodeIndex host, NetlinkGroup group, ByteSpan datagram) {
  const Destination to{.group = std::to_underlying(group)};
  return broadcast(host, to, 0,
                   {
                       .group = to.group, .bytes = {datagram.begin(), datagram.end()}
  });
}

int NetlinkSockets::unicast(fabric::NodeIndex host, std::uint32_t port, ByteSpan datagram) {
  return deliver(
      {
          host, port
  },
      {.bytes = {datagram.begin(), datagram.end()}});
}

int NetlinkSockets::broadcast(fabric::NodeIndex host, const Destination& to, Id except,
                              const NetlinkDatagram& datagram) {
  bool is_heard = false;
  constexpr Id kKernel = 0;
  for (auto& [id, socket] : sockets_) {
    const bool hears = except == kKernel ? socket.hears_kernel(to.group)
                                         : (socket.groups & mask_of(to.group)) != 0;
    // Who is addressed by its port gets it that way.
    if (socket.host != host || id == except || !hears || (to.port != 0 && socket.port == to.port)) {
      continue;
    }
    if (has_room(socket)) {
      put(id, socket, datagram);
      is_heard = true;
    } else {
      overrun(id, socket);
    }
  }
  return is_heard ? 0 : -ESRCH;
}

int NetlinkSockets::deliver(Address to, NetlinkDatagram datagram) {
  const auto found = ports_.find(to);
  if (found == ports_.end()) {
    return -ECONNREFUSED;
  }
  Socket& socket = sockets_.at(found->second);
  if (!has_room(socket)) {
    overrun(found->second, socket);
    return -EAGAIN;
  }
  put(found->second, socket, std::move(datagram));
  return 0;
}

void NetlinkSockets::put(Id id, Socket& socket, NetlinkDatagram datagram) {
  const bool is_first = socket.waiting.empty();
  socket.waiting_octets += datagram.bytes.size();
  socket.waiting.push_back(std::move(datagram));
  if (is_first && news_) {
    news_(id);
  }
}

/// The reader is told once, and nothing more comes until it has read all that waits.
void NetlinkSockets::overrun(Id id, Socket& socket) {
  const bool is_told = (socket.options & bit_of(NetlinkOption::NoOverruns)) == 0;
  if (is_told && !socket.is_congested) {
    socket.is_congested = true;
    put(id, socket, {.is_overrun = true});
  }
}

const NetlinkDatagram* NetlinkSockets::front(Id socket) const {
  const auto found = sockets_.find(socket);
  return found == sockets_.end() || found->second.waiting.empty() ? nullptr
                                                                  : &found->second.waiting.front();
}

void NetlinkSockets::pop(Id socket) {
  Socket& own = sockets_.at(socket);
  own.waiting_octets -= own.waiting.front().bytes.size();
  own.waiting.pop_front();
  own.is_congested = own.is_congested && !own.waiting.empty();
}

void NetlinkSockets::check_invariants() const {
  std::size_t bound = 0;
  for (const auto& [id, socket] : sockets_) {
    std::size_t octets = 0;
    for (const NetlinkDatagram& each : socket.waiting) {
      octets += each.bytes.size();
    }
    WEFT_ASSERT(octets == socket.waiting_octets, "what waits is counted");
    if (socket.port != 0) {
      ++bound;
      const auto found = ports_.find({socket.host, socket.port});
      WEFT_ASSERT(found != ports_.end() && found->second == id, "an address has one socket");
    }
  }
  WEFT_ASSERT(bound == ports_.size(), "every address is a socket's");
}

}  // namespace weft::node
