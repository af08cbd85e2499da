#include "programs/iwpm/service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "base/assert.h"
#include "os/clock.h"
#include "programs/iwpm/sockets.h"
#include "wire/iwpm/peer_message.h"

namespace weft::programs::iwpm {

using weft::iwpm::MappedPort;
using weft::iwpm::MapperOptions;

namespace {

constexpr int kDatagramsOfTurn = 64;  // policy
constexpr std::size_t kLongestDatagram = 2'048;

[[nodiscard]] std::uint64_t random_seed() {
  std::uint64_t seed = 0;
  WEFT_ASSERT(getrandom(&seed, sizeof seed, 0) == sizeof seed, "8 octets are never cut short");
  return seed;
}

[[nodiscard]] IpAddress any_of(IpFamily family) {
  return family == IpFamily::V4 ? IpAddress::v4(0) : IpAddress{IpAddress::V6Octets{}};
}

}  // namespace

Service::Service(os::NetlinkSocket netlink, Control control)
    : netlink_(std::move(netlink)),
      control_(std::move(control)),
      mapper_(*this, MapperOptions{.port = netlink_.port(), .seed = random_seed()}) {}

Result<std::unique_ptr<Service>> Service::start() {
  auto control = Control::listen(kServiceName);
  if (!control) {
    return std::unexpected(std::move(control.error()));
  }
  constexpr std::array kGroups{wire::iwpm::kGroup};
  auto netlink = os::NetlinkSocket::open(os::NetlinkSocket::kRdma, kGroups);
  if (!netlink) {
    return std::unexpected(std::move(netlink.error()));
  }
  std::unique_ptr<Service> service{
      new Service{*std::move(netlink), *std::move(control)}
  };
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  service->signals_ = os::UniqueFd{signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
  if (auto opened = service->open_peers(); !opened) {
    return std::unexpected(std::move(opened.error()));
  }
  return service;
}

Result<void> Service::open_peers() {
  for (const IpFamily family : {IpFamily::V4, IpFamily::V6}) {
    const IpAddress any = any_of(family);
    auto server = bound_socket(SOCK_DGRAM, {any, wire::iwpm::kPeerPort});
    auto client = bound_socket(SOCK_DGRAM, {any, 0});
    if (server && client) {
      peers_.push_back({
          .family = SocketAddress{any, 0}
            .family,
          .server = *std::move(server),
          .client = *std::move(client)
      });
    } else if (family == IpFamily::V4) {  // a host without IPv6 is served all the same
      return fail(ErrorCode::Exists, "UDP {}: another port mapper runs on this host",
                  (server ? client : server).error().reason);
    }
  }
  return {};
}

Result<Service::ReservedPort> Service::reserve_port(IpFamily family, std::uint16_t wanted) {
  auto socket = bound_socket(SOCK_STREAM, {any_of(family), wanted});
  if (!socket) {
    return std::unexpected(std::move(socket.error()));
  }
  const ReservedPort reserved{.handle = ++last_handle_, .number = port_of(*socket)};
  ports_.emplace(reserved.handle, *std::move(socket));
  return reserved;
}

void Service::release_port(weft::iwpm::PortHandle handle) { ports_.erase(handle); }

bool Service::owns_address(const IpAddress& address) const { return has_address(address); }

void Service::send_to_kernel(std::vector<std::byte> datagram) {
  if (const auto sent = netlink_.send(0, 0, datagram); !sent) {
    log(sent.error().reason);
  }
}

void Service::send_to_peer(PeerSocket socket, const SocketAddress& peer,
                           std::vector<std::byte> datagram) {
  const auto found = std::ranges::find(peers_, peer.family, &Peers::family);
  if (found == peers_.end()) {
    return;  // as a datagram that was lost
  }
  const RawAddress to = raw(peer);
  const os::UniqueFd& from = socket == PeerSocket::Server ? found->server : found->client;
  ::sendto(from.get(), datagram.data(), datagram.size(), MSG_DONTWAIT,
           std::bit_cast<const sockaddr*>(&to.storage), to.size);
}

void Service::log(std::string line) {
  fmt::print(stderr, "{}\n", line);
  std::fflush(stderr);
}

std::vector<pollfd> Service::watched() const {
  std::vector<pollfd> all{
      {.fd = signals_.get(), .events = POLLIN, .revents = 0},
      {.fd = netlink_.fd(),  .events = POLLIN, .revents = 0}
  };
  for (const Peers& peers : peers_) {
    all.push_back({.fd = peers.server.get(), .events = POLLIN, .revents = 0});
    all.push_back({.fd = peers.client.get(), .events = POLLIN, .revents = 0});
  }
  for (const int fd : control_.descriptors()) {
    all.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  }
  return all;
}

Result<void> Service::run() {
  mapper_.start(os::now());
  while (true) {
    std::vector<pollfd> waits = watched();
    const Instant deadline = mapper_.poll_deadline();
    int timeout_ms = -1;
    if (deadline != Instant::never()) {
      constexpr std::int64_t kMostMs = 3'600'000;
      const std::int64_t ns = (deadline - os::now()).nanoseconds();
      timeout_ms =
          static_cast<int>(std::clamp<std::int64_t>((ns + 999'999) / 1'000'000, 0, kMostMs));
    }
    if (poll(waits.data(), waits.size(), timeout_ms) < 0 && errno != EINTR) {
      return fail(ErrorCode::Io, "poll: {}", std::strerror(errno));
    }
    if (waits.front().revents != 0) {
      mapper_.stop();
      return {};
    }
    const Instant now = os::now();
    if (auto taken = take_netlink(now); !taken) {
      return taken;
    }
    take_peers(now);
    mapper_.handle_timeout(now);
    control_.handle([this](std::string_view line) { return answer(line); });
  }
}

Result<void> Service::take_netlink(Instant now) {
  for (int turn = 0; turn < kDatagramsOfTurn; ++turn) {
    const auto received = netlink_.receive();
    if (!received) {
      return std::unexpected(received.error());
    }
    if (!*received) {
      break;
    }
    if ((*received)->is_overrun) {
      mapper_.handle_overflow(now);
    } else if ((*received)->port == 0) {  // the kernel; others have nothing to say here
      mapper_.handle_netlink((*received)->bytes, now);
    }
  }
  return {};
}

void Service::take_peers(Instant now) {
  std::array<std::byte, kLongestDatagram> buffer{};
  for (const Peers& peers : peers_) {
    for (const auto& [socket, fd] : {
             std::pair{PeerSocket::Server, peers.server.get()},
             std::pair{PeerSocket::Client, peers.client.get()}
    }) {
      for (int turn = 0; turn < kDatagramsOfTurn; ++turn) {
        sockaddr_storage from{};
        socklen_t size = sizeof from;
        auto* const sender = std::bit_cast<sockaddr*>(&from);
        const ssize_t length =
            ::recvfrom(fd, buffer.data(), buffer.size(), MSG_DONTWAIT, sender, &size);
        if (length < 0) {
          break;
        }
        if (const auto address = address_of(sender)) {
          mapper_.handle_datagram(socket, *address,
                                  ByteSpan{buffer}.first(static_cast<std::size_t>(length)), now);
        }
      }
    }
  }
}

std::string Service::answer(std::string_view line) const {
  const std::vector<MappedPort> mappings = mapper_.mappings();
  if (line == "json") {
    std::vector<std::string> records;
    for (const MappedPort& port : mappings) {
      records.push_back(fmt::format(R"({{"local": "{}", "mapped": "{}", "users": {}}})",
                                    wire::iwpm::to_string(port.local),
                                    wire::iwpm::to_string(port.mapped), port.references));
    }
    return fmt::format("{{\"abi\": {}, \"open_exchanges\": {}, \"mappings\": [{}]}}\n",
                       mapper_.abi().value_or(0), mapper_.open_exchanges(),
                       fmt::join(records, ", "));
  }
  if (line != "status") {
    return "this is asked for status or json\n";
  }
  std::string out = fmt::format("{} addresses are mapped\n", mappings.size());
  for (const MappedPort& port : mappings) {
    out += fmt::format("{} to {}, users: {}\n", wire::iwpm::to_string(port.local),
                       wire::iwpm::to_string(port.mapped), port.references);
  }
  return out;
}

}  // namespace weft::programs::iwpm
