// Datagram rsockets as programs use them, and what they say over UDP.

#include <fcntl.h>
#include <poll.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string_view>
#include <thread>
#include <vector>

#include "fabric/addresses.h"
#include "rdmacm_fixture.h"
#include "ulp/rsocket/datagram_protocol.h"

namespace {

using weft::IpAddress;
using weft::rsockets::kMaxDatagram6Bytes;
using weft::rsockets::kMaxDatagramBytes;
using weft::rsockets::kUdpHeader6Bytes;
using weft::rsockets::kUdpHeaderBytes;
using weft::rsockets::UdpHeader;
using weft::rsockets::UdpHeader6;
using weft::rsockets::UdpOperation;

/// The first of a few ports of the machine's own UDP: tests of other processes run at the same
/// time.
const auto kPort = static_cast<std::uint16_t>(20'000 + getpid() % 3'000 * 4);

constexpr IpAddress kOwn6 = IpAddress::v6(0xFD77'0000'0000'0000, 1);

/// Two sockets of one host.
class DatagramRSocket : public RdmaCm {
 protected:
  void SetUp() override {
    RdmaCm::SetUp();
    here_ = address("127.77.0.1", kPort);
    server_ = bound(here_);
    there_ = address("127.77.0.1", kPort + 1);
    client_ = bound(there_);
  }
  void TearDown() override {
    for (const int socket : {server_, client_}) {
      EXPECT_EQ(rclose(socket), 0);
    }
    EXPECT_EQ(daemon_->ids(), 0U);
    RdmaCm::TearDown();
  }
  static int bound(sockaddr_in address) {
    const int socket = rsocket(AF_INET, SOCK_DGRAM, 0);
    EXPECT_GE(socket, 0);
    EXPECT_EQ(rbind(socket, generic(address), sizeof address), 0) << std::strerror(errno);
    return socket;
  }
  static void expect_to_send(int from, sockaddr_in to, std::string_view text) {
    EXPECT_EQ(rsendto(from, text.data(), text.size(), 0, generic(to), sizeof to),
              static_cast<ssize_t>(text.size()));
  }
  /// What comes within two seconds, and from whom.
  std::string received(int socket, int flags = 0) {
    pollfd readable{.fd = socket, .events = POLLIN, .revents = 0};
    if (rpoll(&readable, 1, 2'000) != 1) {
      return "nothing";
    }
    std::array<char, 4'096> room{};
    socklen_t bytes = sizeof from_;
    const ssize_t got =
        rrecvfrom(socket, room.data(), room.size(), MSG_DONTWAIT | flags, generic(from_), &bytes);
    return got < 0 ? "failed" : std::string{room.data(), static_cast<std::size_t>(got)};
  }
  /// Each has the other's QP.
  void become_acquainted() {
    for (int i = 0; i < 5; ++i) {
      expect_to_send(client_, here_, "hello");
      EXPECT_EQ(received(server_), "hello");
      expect_to_send(server_, there_, "welcome");
      EXPECT_EQ(received(client_), "welcome");
    }
  }

  sockaddr_in here_{};
  sockaddr_in there_{};
  sockaddr_in from_{};
  int server_{-1};
  int client_{-1};
};

/// Somebody who speaks UDP alone.
class UdpPeer {
 public:
  /// Port 0 is any that is free.
  explicit UdpPeer(sockaddr_in own) : own_(own) {
    EXPECT_EQ(bind(fd_.get(), generic(own_), sizeof own_), 0) << own_.sin_port;
    socklen_t bytes = sizeof own_;
    EXPECT_EQ(getsockname(fd_.get(), generic(own_), &bytes), 0);
  }
  static sockaddr* generic(sockaddr_in& address) {
    return static_cast<sockaddr*>(static_cast<void*>(&address));
  }
  sockaddr_in address() const { return own_; }
  void send(sockaddr_in to, const std::vector<std::byte>& octets) {
    EXPECT_EQ(sendto(fd_.get(), octets.data(), octets.size(), 0, generic(to), sizeof to),
              static_cast<ssize_t>(octets.size()));
  }
  template <class Header>
  void send(sockaddr_in to, const Header& header, std::string_view text = {}) {
    const auto packed = weft::wire::pack(header);
    std::vector<std::byte> octets(packed.begin(), packed.end());
    const auto data = std::as_bytes(std::span{text});
    octets.insert(octets.end(), data.begin(), data.end());
    send(to, octets);
  }
  /// Empty: nothing came within 100 ms.
  std::vector<std::byte> receive() {
    pollfd readable{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    std::vector<std::byte> octets(4'096);
    const ssize_t got = poll(&readable, 1, 100) == 1
                            ? recv(fd_.get(), octets.data(), octets.size(), MSG_DONTWAIT)
                            : 0;
    octets.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    return octets;
  }

 private:
  weft::os::UniqueFd fd_{socket(AF_INET, SOCK_DGRAM, 0)};
  sockaddr_in own_{};
};

TEST_F(DatagramRSocket, SaysWhoSentWhatItReceivesBeforeAndAfterTheQpsAreKnown) {
  become_acquainted();
  EXPECT_EQ(from_.sin_port, here_.sin_port);
  EXPECT_EQ(from_.sin_addr.s_addr, here_.sin_addr.s_addr);
}

TEST_F(DatagramRSocket, AQpThatIsNotKnownIsAskedForOverUdpByTheDatagramItself) {
  UdpPeer peer{address("127.77.0.1", kPort + 2)};
  expect_to_send(client_, peer.address(), "hello");
  const auto octets = peer.receive();
  ASSERT_EQ(octets.size(), kUdpHeaderBytes + 5);
  const auto header = weft::rsockets::read_udp(octets);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->operation, UdpOperation::Data);
  EXPECT_NE(header->qpn, 0U);
  EXPECT_EQ(header->address, IpAddress::v4(0x7F4D'0001));
}

TEST_F(DatagramRSocket, ADatagramOverUdpIsAnsweredByTheOwnQpnAlone) {
  UdpPeer peer{address("127.77.0.1", kPort + 2)};
  peer.send(here_, UdpHeader{.qpn = 0x77, .address = 0x7F4D'0001}, "hello");
  EXPECT_EQ(received(server_), "hello");
  EXPECT_EQ(from_.sin_port, peer.address().sin_port);
  const auto octets = peer.receive();
  ASSERT_EQ(octets.size(), kUdpHeaderBytes);
  EXPECT_EQ(weft::rsockets::read_udp(octets)->operation, UdpOperation::Control);
  EXPECT_TRUE(peer.receive().empty()) << "once";
}

TEST_F(DatagramRSocket, NothingGoesOverUdpOnceTheQpAndTheWayAreKnown) {
  UdpPeer peer{address("127.77.0.1", kPort + 2)};
  peer.send(there_, UdpHeader{.operation = UdpOperation::Control, .qpn = 0x77});
  for (int i = 0; i < 50 && !peer.receive().empty() | (i < 5); ++i) {
    expect_to_send(client_, peer.address(), "x");
  }
  while (!peer.receive().empty()) {
  }
  expect_to_send(client_, peer.address(), "by the QP");
  EXPECT_TRUE(peer.receive().empty());
}

TEST_F(DatagramRSocket, APeerWithAnotherQpIsFoundAnew) {
  UdpPeer peer{address("127.77.0.1", kPort + 2)};
  peer.send(there_, UdpHeader{.operation = UdpOperation::Control, .qpn = 0x77});
  for (int i = 0; i < 10; ++i) {
    expect_to_send(client_, peer.address(), "x");
    peer.receive();
  }
  // It began again, and has the server's QP now.
  UdpHeader servers{.operation = UdpOperation::Control};
  {
    UdpPeer asking{address("127.77.0.1", kPort + 3)};
    asking.send(here_, UdpHeader{.qpn = 1}, "who are you?");
    EXPECT_EQ(received(server_), "who are you?");
    servers.qpn = weft::rsockets::read_udp(asking.receive())->qpn;
  }
  peer.send(there_, servers);
  for (int i = 0; i < 100; ++i) {  // who only sends looks at UDP now and then
    expect_to_send(client_, peer.address(), "y");
    usleep(5'000);
  }
  EXPECT_EQ(received(server_), "y");
}

TEST_F(DatagramRSocket, WhatIsNoRsocketsIsDropped) {
  UdpPeer stranger{address("127.77.0.1", kPort + 2)};
  stranger.send(here_, std::vector<std::byte>(3));
  stranger.send(here_, std::vector<std::byte>(64, std::byte{0x55}));
  stranger.send(here_, UdpHeader{.tag = 1}, "hello");
  stranger.send(here_, UdpHeader{.version = 6}, "hello");
  stranger.send(here_, UdpHeader{.length = 28}, "hello");
  char octet{};
  EXPECT_EQ(rrecv(server_, &octet, 1, MSG_DONTWAIT), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_TRUE(stranger.receive().empty());
  become_acquainted();
}

TEST_F(DatagramRSocket, ThatIsConnectedHearsItsPeerAlone) {
  ASSERT_EQ(rconnect(server_, generic(there_), sizeof there_), 0);
  UdpPeer stranger{address("127.77.0.1", kPort + 2)};
  stranger.send(here_, UdpHeader{.qpn = 5}, "hello");
  expect_to_send(client_, here_, "peer");
  EXPECT_EQ(received(server_), "peer");
  EXPECT_EQ(rsend(server_, "back", 4, 0), 4);
  EXPECT_EQ(received(client_), "back");
  sockaddr_in name{};
  socklen_t bytes = sizeof name;
  ASSERT_EQ(rgetpeername(server_, generic(name), &bytes), 0);
  EXPECT_EQ(name.sin_port, there_.sin_port);
}

TEST_F(DatagramRSocket, KeepsDatagramsApartAndCutsWhatDoesNotFit) {
  become_acquainted();
  expect_to_send(client_, here_, "first");
  expect_to_send(client_, here_, "");
  expect_to_send(client_, here_, "third");
  EXPECT_EQ(received(server_, MSG_PEEK), "first");
  std::array<char, 2> room{};
  EXPECT_EQ(rrecv(server_, room.data(), room.size(), 0), 2);
  EXPECT_EQ(received(server_), "");
  EXPECT_EQ(received(server_), "third");
}

TEST_F(DatagramRSocket, GathersPiecesToOneDatagramAndScattersIt) {
  ASSERT_EQ(rconnect(client_, generic(here_), sizeof here_), 0);
  char hello[] = "hello ";
  char world[] = "world";
  const iovec out[] = {
      {.iov_base = hello, .iov_len = 6},
      {.iov_base = world, .iov_len = 5}
  };
  EXPECT_EQ(rwritev(client_, out, 2), 11);
  std::array<char, 4> first{};
  std::array<char, 20> second{};
  iovec in[] = {
      {.iov_base = first.data(),  .iov_len = first.size() },
      {.iov_base = second.data(), .iov_len = second.size()}
  };
  EXPECT_EQ(rreadv(server_, in, 2), 11);
  EXPECT_EQ((std::string_view{second.data(), 7}), "o world");
}

TEST_F(DatagramRSocket, CarriesUpToItsLimitByUdpAndByTheQp) {
  std::string longest(kMaxDatagramBytes, 'w');
  expect_to_send(client_, here_, longest);
  EXPECT_EQ(received(server_), longest);
  become_acquainted();
  expect_to_send(client_, here_, longest);
  EXPECT_EQ(received(server_), longest);
  longest += 'w';
  EXPECT_EQ(rsendto(client_, longest.data(), longest.size(), 0, generic(here_), sizeof here_), -1);
  EXPECT_EQ(errno, EMSGSIZE);
}

TEST_F(DatagramRSocket, WaitsForDatagramsAndForRoom) {
  become_acquainted();
  std::thread sender{[this] {
    usleep(30'000);
    expect_to_send(client_, here_, "late");
  }};
  std::array<char, 8> room{};
  EXPECT_EQ(rrecv(server_, room.data(), room.size(), 0), 4);
  sender.join();
  for (int i = 0; i < 3'000; ++i) {  // more than there are slots; who does not read loses them
    ASSERT_EQ(rsendto(client_, "x", 1, 0, generic(here_), sizeof here_), 1);
  }
  EXPECT_EQ(received(server_), "x");
}

TEST_F(DatagramRSocket, RefusesWhatStreamsAloneHave) {
  EXPECT_EQ(rlisten(server_, 1), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(raccept(server_, nullptr, nullptr), -1);
  EXPECT_EQ(errno, EOPNOTSUPP);
  EXPECT_EQ(rsend(server_, "x", 1, 0), -1);
  EXPECT_EQ(errno, EDESTADDRREQ);
  EXPECT_EQ(rbind(server_, generic(here_), sizeof here_), -1);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(rsocket(AF_IB, SOCK_DGRAM, 0), -1);
  EXPECT_EQ(errno, EAFNOSUPPORT);
  EXPECT_EQ(rsocket(AF_INET, SOCK_DGRAM, IPPROTO_TCP), -1);
  EXPECT_EQ(errno, ENOTSUP);
}

TEST_F(DatagramRSocket, AnAddressIsOfOneSocket) {
  const int third = rsocket(AF_INET, SOCK_DGRAM, 0);
  EXPECT_EQ(rbind(third, generic(here_), sizeof here_), -1);
  EXPECT_EQ(errno, EADDRINUSE);
  EXPECT_EQ(rclose(third), 0);
}

TEST_F(DatagramRSocket, ThatIsNotBoundHasAnAddressOnceItSends) {
  const int third = rsocket(AF_INET, SOCK_DGRAM, 0);
  expect_to_send(third, here_, "hello");
  EXPECT_EQ(received(server_), "hello");
  sockaddr_in name{};
  socklen_t bytes = sizeof name;
  ASSERT_EQ(rgetsockname(third, generic(name), &bytes), 0);
  EXPECT_NE(name.sin_port, 0);
  EXPECT_EQ(name.sin_port, from_.sin_port);
  EXPECT_EQ(rclose(third), 0);
}

TEST_F(DatagramRSocket, RemembersNoMoreStrangersThanItsLimit) {
  const std::size_t before = daemon_->ids();
  for (int i = 0; i < 1'200; ++i) {  // some few of them twice
    UdpPeer stranger{address("127.77.0.1", 0)};
    stranger.send(here_, UdpHeader{.qpn = 9}, "hello");
    ASSERT_EQ(received(server_), "hello") << i;
    ASSERT_LE(daemon_->ids(), before + 64) << "searches at once";
  }
  become_acquainted();
}

/// Sockets of AF_INET6 beside those.
class DatagramRSocket6 : public DatagramRSocket {
 protected:
  void TearDown() override {
    for (const int socket : more_) {
      EXPECT_EQ(rclose(socket), 0);
    }
    DatagramRSocket::TearDown();
  }
  static sockaddr_in6 address6(const char* text, int port) {
    sockaddr_in6 out{};
    out.sin6_family = AF_INET6;
    out.sin6_port = htons(static_cast<std::uint16_t>(port));
    EXPECT_EQ(inet_pton(AF_INET6, text, &out.sin6_addr), 1);
    return out;
  }
  static sockaddr* generic6(sockaddr_in6& address) {
    return static_cast<sockaddr*>(static_cast<void*>(&address));
  }
  int bound6(const char* text, int port, int v6_only = 0) {
    more_.push_back(rsocket(AF_INET6, SOCK_DGRAM, 0));
    EXPECT_GE(more_.back(), 0) << std::strerror(errno);
    EXPECT_EQ(rsetsockopt(more_.back(), IPPROTO_IPV6, IPV6_V6ONLY, &v6_only, sizeof v6_only), 0);
    sockaddr_in6 own = address6(text, port);
    EXPECT_EQ(rbind(more_.back(), generic6(own), sizeof own), 0) << std::strerror(errno);
    return more_.back();
  }
  static ssize_t send6(int from, sockaddr_in6 to, std::string_view text) {
    return rsendto(from, text.data(), text.size(), 0, generic6(to), sizeof to);
  }
  /// As "text from [address]:port".
  std::string received6(int socket) {
    pollfd readable{.fd = socket, .events = POLLIN, .revents = 0};
    if (rpoll(&readable, 1, 2'000) != 1) {
      return "nothing";
    }
    std::array<char, 4'096> room{};
    sockaddr_in6 from{};
    socklen_t bytes = sizeof from;
    const ssize_t got =
        rrecvfrom(socket, room.data(), room.size(), MSG_DONTWAIT, generic6(from), &bytes);
    EXPECT_EQ(bytes, sizeof from);
    EXPECT_EQ(from.sin6_family, AF_INET6);
    std::array<char, INET6_ADDRSTRLEN> name{};
    inet_ntop(AF_INET6, &from.sin6_addr, name.data(), name.size());
    return got < 0 ? "failed"
                   : std::string{room.data(), static_cast<std::size_t>(got)} + " from [" +
                         name.data() + "]:" + std::to_string(ntohs(from.sin6_port));
  }

  std::vector<int> more_;
};

TEST_F(DatagramRSocket6, SpeaksToAnotherBeforeAndAfterTheQpsAreKnown) {
  const int server = bound6("fd77::1", kPort + 2);
  const int client = bound6("fd77::1", kPort + 3);
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(send6(client, address6("fd77::1", kPort + 2), "hello"), 5);
    EXPECT_EQ(received6(server), "hello from [fd77::1]:" + std::to_string(kPort + 3));
    EXPECT_EQ(send6(server, address6("fd77::1", kPort + 3), "welcome"), 7);
    EXPECT_EQ(received6(client), "welcome from [fd77::1]:" + std::to_string(kPort + 2));
  }
  std::string longest(kMaxDatagram6Bytes, 'w');
  EXPECT_EQ(send6(client, address6("fd77::1", kPort + 2), longest), std::ssize(longest));
  EXPECT_TRUE(received6(server).starts_with(longest + " from"));
  longest += 'w';
  EXPECT_EQ(send6(client, address6("fd77::1", kPort + 2), longest), -1);
  EXPECT_EQ(errno, EMSGSIZE);
}

TEST_F(DatagramRSocket6, BoundToNoAddressHearsBothVersionsAndAnswersEach) {
  const int server = bound6("::", kPort + 2);
  const int client = bound6("fd77::1", kPort + 3);
  for (int i = 0; i < 5; ++i) {
    expect_to_send(client_, address("127.77.0.1", kPort + 2), "four");
    EXPECT_EQ(received6(server), "four from [::ffff:127.77.0.1]:" + std::to_string(kPort + 1));
    EXPECT_EQ(send6(server, address6("::ffff:127.77.0.1", kPort + 1), "back"), 4);
    EXPECT_EQ(received(client_), "back");
    EXPECT_EQ(from_.sin_addr.s_addr, here_.sin_addr.s_addr);
    EXPECT_EQ(send6(client, address6("fd77::1", kPort + 2), "six"), 3);
    EXPECT_EQ(received6(server), "six from [fd77::1]:" + std::to_string(kPort + 3));
  }
}

/// What getaddrinfo(3) gives to a server that names no address, without AI_PASSIVE: udpong's.
TEST_F(DatagramRSocket6, BoundToTheLoopbackAddressIsItsHostWhicheverVersionAPeerSpeaks) {
  const int server = bound6("::1", kPort + 2);
  const int client = bound6("fd77::1", kPort + 3);
  for (int i = 0; i < 5; ++i) {
    expect_to_send(client_, address("127.77.0.1", kPort + 2), "four");
    ASSERT_EQ(received6(server), "four from [::ffff:127.77.0.1]:" + std::to_string(kPort + 1));
    EXPECT_EQ(send6(server, address6("::ffff:127.77.0.1", kPort + 1), "back"), 4);
    EXPECT_EQ(received(client_), "back");
    EXPECT_EQ(send6(client, address6("::1", kPort + 2), "six"), 3);
    EXPECT_EQ(received6(server), "six from [fd77::1]:" + std::to_string(kPort + 3));
  }
}

TEST_F(DatagramRSocket6, OfIpv6AloneHasNoIpv4Addresses) {
  const int server = bound6("::", kPort + 2, 1);
  expect_to_send(client_, address("127.77.0.1", kPort + 2), "four");
  EXPECT_EQ(received6(server), "nothing");
  EXPECT_EQ(send6(server, address6("::ffff:127.77.0.1", kPort + 1), "back"), -1);
  EXPECT_EQ(errno, ENETUNREACH);
}

TEST_F(DatagramRSocket6, OfAnIpv4AddressIsCalledByItsMappedForm) {
  const int server = bound6("::ffff:127.77.0.1", kPort + 2);
  sockaddr_in6 name{};
  socklen_t bytes = sizeof name;
  ASSERT_EQ(rgetsockname(server, generic6(name), &bytes), 0);
  EXPECT_TRUE(IN6_IS_ADDR_V4MAPPED(&name.sin6_addr));
  EXPECT_EQ(name.sin6_port, htons(kPort + 2));
  expect_to_send(client_, address("127.77.0.1", kPort + 2), "hello");
  EXPECT_EQ(received6(server), "hello from [::ffff:127.77.0.1]:" + std::to_string(kPort + 1));
  EXPECT_EQ(send6(server, address6("fd77::1", kPort + 1), "six"), -1);
  EXPECT_EQ(errno, ENETUNREACH);
}

TEST_F(DatagramRSocket6, BelievesNoAddressThatIsNotTheSenders) {
  const int server = bound6("::", kPort + 2);
  UdpPeer liar{address("127.77.0.1", 0)};
  const sockaddr_in to = address("127.77.0.1", kPort + 2);
  liar.send(to, UdpHeader6{.qpn = 5, .address = weft::fabric::ipv6_of(1, 0).v6_octets()}, "lie");
  EXPECT_EQ(received6(server), "nothing");
  liar.send(to, UdpHeader6{.qpn = 5, .address = kOwn6.v6_octets()}, "truth");
  EXPECT_TRUE(received6(server).starts_with("truth from [fd77::1]:"));
  EXPECT_EQ(liar.receive().size(), kUdpHeader6Bytes);
}

}  // namespace
