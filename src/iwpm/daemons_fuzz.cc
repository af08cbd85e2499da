// Arbitrary netlink messages to the kernel's side of a port mapper that has asked its daemon, and
// to the daemon, with arbitrary datagrams of its peers: what a daemon that is none, a kernel that
// is none, and strangers on the network may say. Every request ends, and nothing is left.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "iwpm/kernel_side.h"
#include "iwpm/mapper.h"

namespace weft::iwpm {
namespace {

constexpr std::uint32_t kDaemon = 4711;
constexpr std::uint8_t kClient = wire::iwpm::kClientIwcm;
constexpr std::size_t kMostPorts = 64;

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

[[nodiscard]] SocketAddress address(std::uint8_t host, std::uint16_t port) {
  return {IpAddress::v4(0x0A00'0000U + host), port};
}

class DaemonsSocket final : public KernelServices {
 public:
  Result<void> unicast(std::uint32_t port, std::vector<std::byte> /*datagram*/) override {
    return port == kDaemon ? Result<void>{} : fail(ErrorCode::Refused, "no such socket");
  }
  Result<void> multicast(std::uint32_t /*group*/, std::vector<std::byte> /*datagram*/) override {
    return {};
  }
  void log(std::string /*line*/) override {}
};

/// Requests are made between messages, so that numbers that are foreseen answer them.
void try_kernel(std::uint8_t choice, ByteSpan octets) {
  DaemonsSocket socket;
  KernelSide kernel{socket};
  require(kernel.init(kClient).has_value());
  Instant now;
  std::size_t asked = 0;
  std::size_t ended = 0;
  const auto ask = [&](unsigned turn) {
    const ConnectionAddresses wanted{.local = address(1, static_cast<std::uint16_t>(80 + turn)),
                                     .mapped_local = {},
                                     .remote = address(2, 90),
                                     .mapped_remote = {},
                                     .flags = 0};
    const auto started =
        turn == 0
            ? kernel.register_pid({.device_name = "siw0", .interface_name = "eth0"}, kClient, now)
        : turn % 2 != 0 ? kernel.add_mapping(wanted, kClient, now)
                        : kernel.add_and_query_mapping(wanted, kClient, now);
    asked += started && started->completion_follows ? 1 : 0;
  };
  ask(0);
  unsigned turn = 0;
  while (const auto message = wire::netlink::take_message(octets)) {
    const std::uint32_t sender = (choice & 1U) != 0 && turn % 4 == 3 ? kDaemon + 1 : kDaemon;
    static_cast<void>(kernel.handle_message(*message, sender, now));
    ask(++turn);
    while (kernel.poll_completion()) {
      ++ended;
    }
    kernel.check_invariants();
  }
  now = now + Duration::seconds(11);
  kernel.handle_timeout(now);
  while (kernel.poll_completion()) {
    ++ended;
  }
  require(asked == ended && kernel.requests() == 0);
  require(kernel.exit(kClient).has_value());
  kernel.check_invariants();
}

class Sockets final : public MapperServices {
 public:
  Result<ReservedPort> reserve_port(IpFamily /*family*/, std::uint16_t wanted) override {
    if (ports.size() >= kMostPorts) {
      return fail(ErrorCode::OutOfMemory, "no more ports");
    }
    const PortHandle handle{++last};
    ports[handle] = wanted != 0 ? wanted : static_cast<std::uint16_t>(20'000 + last);
    return ReservedPort{.handle = handle, .number = ports[handle]};
  }
  void release_port(PortHandle handle) override { require(ports.erase(handle) == 1); }
  [[nodiscard]] bool owns_address(const IpAddress& address) const override {
    return address == IpAddress::v4(0x0A00'0001);
  }
  void send_to_kernel(std::vector<std::byte> datagram) override {
    ByteSpan rest = datagram;
    require(wire::netlink::take_message(rest).has_value());
  }
  void send_to_peer(PeerSocket /*socket*/, const SocketAddress& /*peer*/,
                    std::vector<std::byte> datagram) override {
    require(wire::iwpm::parse_peer_message(datagram).has_value());
  }
  void log(std::string /*line*/) override {}

  std::map<PortHandle, std::uint16_t> ports;
  std::uint32_t last{};
};

/// Pieces of the input are, in turn, datagrams of the kernel and of peers.
void try_mapper(std::uint8_t choice, ByteSpan octets) {
  constexpr std::size_t kMostOctets = 256;
  Sockets sockets;
  Mapper mapper{
      sockets, {.port = kDaemon, .seed = choice, .most_mappings = kMostPorts}
  };
  Instant now;
  mapper.start(now);
  while (octets.size() > 1) {
    const auto head = std::to_integer<std::uint8_t>(octets.front());
    octets = octets.subspan(1);
    const ByteSpan datagram = octets.first(std::min(octets.size(), kMostOctets));
    ByteSpan rest = datagram;
    const auto message = wire::netlink::take_message(rest);
    const std::size_t taken = head % 2 == 0 && message ? datagram.size() - rest.size()
                                                       : std::min<std::size_t>(datagram.size(), 64);
    if (head % 2 == 0) {
      mapper.handle_netlink(datagram.first(taken), now);
    } else {
      mapper.handle_datagram((head & 2U) != 0 ? PeerSocket::Server : PeerSocket::Client,
                             address(head & 4U ? 2 : 3, 3935), datagram.first(taken), now);
    }
    if ((head & 8U) != 0) {
      now = now + Duration::milliseconds(head);
      mapper.handle_timeout(now);
    }
    if (head == 0xFE) {
      mapper.handle_overflow(now);
    }
    mapper.check_invariants();
    octets = octets.subspan(taken);
  }
  constexpr int kTimeouts = 64;
  for (int i = 0; i < kTimeouts && mapper.open_exchanges() != 0; ++i) {
    now = now + Duration::seconds(60);
    mapper.handle_timeout(now);
  }
  require(mapper.open_exchanges() == 0);
  mapper.stop();
  require(sockets.ports.empty());
}

}  // namespace
}  // namespace weft::iwpm

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size != 0) {
    const weft::ByteSpan octets = std::as_bytes(std::span{data, size}).subspan(1);
    weft::iwpm::try_kernel(data[0], octets);
    weft::iwpm::try_mapper(data[0], octets);
  }
  return 0;
}
