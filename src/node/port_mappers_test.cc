// A host's kernel side of the port mapper between two programs with netlink sockets: a driver, and
// the port mapper daemon.

#include "node/port_mappers.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "iwpm/mapper.h"
#include "wire/iwpm/driver_messages.h"

namespace weft::node {
namespace {

using iwpm::Mapper;
using iwpm::MapperServices;
using wire::iwpm::ConnectionInfo;
using wire::iwpm::DriverOperation;
using wire::iwpm::SocketAddress;

constexpr std::uint32_t kDriverPid = 50;
constexpr std::uint32_t kDaemonPid = 60;
constexpr fabric::NodeIndex kHost{1};

class PortMappersTest : public ::testing::Test, public MapperServices {
 protected:
  Result<ReservedPort> reserve_port(IpFamily /*family*/, std::uint16_t wanted) override {
    const std::uint16_t number = wanted == 0 ? next_port++ : wanted;
    bound.insert(number);
    return ReservedPort{.handle = number, .number = number};
  }
  void release_port(iwpm::PortHandle handle) override {
    bound.erase(static_cast<std::uint16_t>(handle));
  }
  [[nodiscard]] bool owns_address(const IpAddress& address) const override {
    return address == kLocal.ip;
  }
  void send_to_kernel(std::vector<std::byte> datagram) override { say(*daemon, datagram); }
  void send_to_peer(iwpm::PeerSocket /*socket*/, const SocketAddress& /*peer*/,
                    std::vector<std::byte> /*datagram*/) override {}
  void log(std::string /*line*/) override {}

  /// Hands a message to the kernel, as the daemon of the fabric does.
  int say(NetlinkSockets::Id socket, ByteSpan datagram) {
    ByteSpan rest = datagram;
    const auto message = wire::netlink::take_message(rest);
    return services.receive(sockets.sender(socket), host_view::operation_of(message->header.type),
                            *message);
  }
  template <class Message>
  int ask(const Message& message, DriverOperation operation) {
    std::vector<std::byte> datagram;
    EXPECT_TRUE(wire::iwpm::append(datagram, wire::iwpm::kMessageRoom, {.sequence = ++sequence},
                                   message, wire::iwpm::kAbi, wire::iwpm::as_operation(operation)));
    return say(driver, datagram);
  }
  int map() { return ask(wire::iwpm::AddMapping{.local = kLocal}, DriverOperation::Map); }

  void start_daemon() {
    daemon = *sockets.open(kHost, kDaemonPid, 3);
    ASSERT_EQ(sockets.bind(*daemon, 0, 1U << (wire::iwpm::kGroup - 1)), 0);
    mapper.emplace(*this, iwpm::MapperOptions{.port = kDaemonPid, .seed = 1});
    mapper->start(now);
    run_daemon();
  }
  /// Hands the daemon what waits for it.
  void run_daemon() {
    while (const auto* const waiting = sockets.front(*daemon)) {
      const std::vector<std::byte> datagram = waiting->bytes;
      sockets.pop(*daemon);
      mapper->handle_netlink(datagram, now);
    }
  }
  std::optional<ConnectionInfo> answer() {
    const auto* const waiting = sockets.front(driver);
    if (waiting == nullptr) {
      return std::nullopt;
    }
    ByteSpan rest = waiting->bytes;
    const auto message = wire::netlink::take_message(rest);
    const auto info = wire::iwpm::parse<ConnectionInfo>(message->payload);
    EXPECT_EQ(message->header.sequence, sequence);
    sockets.pop(driver);
    return info ? std::optional{*info} : std::nullopt;
  }

  const SocketAddress kLocal{IpAddress::v4(0x0A4D'0001), 5'000};
  Instant now = Instant{} + Duration::seconds(1);
  NetlinkSockets sockets;
  PortMappers services{sockets, [this] { return now; }, {}};
  NetlinkSockets::Id driver = *sockets.open(kHost, kDriverPid, 3);
  std::optional<NetlinkSockets::Id> daemon;
  std::optional<Mapper> mapper;
  std::set<std::uint16_t> bound;
  std::uint16_t next_port = 40'000;
  std::uint32_t sequence = 0;

  void SetUp() override { ASSERT_EQ(sockets.bind(driver, 0, 0), 0); }
};

TEST_F(PortMappersTest, GoUnmappedAtOnceWithoutADaemon) {  // part of T-IWPM-3
  EXPECT_EQ(map(), 0);
  const auto info = answer();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->error, 0);
  EXPECT_TRUE(info->mapped_local.is_same(kLocal));
  EXPECT_EQ(services.mappings(kHost), 0U);
}

TEST_F(PortMappersTest, MapADriversAddressUntilItsSocketIsClosed) {
  start_daemon();
  EXPECT_EQ(map(), 0);
  run_daemon();  // registers
  run_daemon();  // maps
  const auto info = answer();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->error, 0);
  EXPECT_EQ(info->mapped_local.port, 40'000);
  EXPECT_EQ(services.mappings(kHost), 1U);
  EXPECT_EQ(bound.size(), 1U);
  sockets.close(driver);
  run_daemon();
  EXPECT_EQ(services.mappings(kHost), 0U);
  EXPECT_TRUE(bound.empty());
}

TEST_F(PortMappersTest, UnmapWhatADriverUnmapsAndNoMore) {
  start_daemon();
  EXPECT_EQ(map(), 0);
  run_daemon();
  ASSERT_TRUE(answer());
  EXPECT_EQ(ask(wire::iwpm::RemoveMapping{.local = kLocal.with_port(1)}, DriverOperation::Unmap),
            -ENOENT);
  EXPECT_EQ(ask(wire::iwpm::RemoveMapping{.local = kLocal}, DriverOperation::Unmap), 0);
  run_daemon();
  EXPECT_TRUE(bound.empty());
}

TEST_F(PortMappersTest, TellADriverThatTheDaemonIsSilent) {
  start_daemon();
  EXPECT_EQ(map(), 0);
  EXPECT_FALSE(answer());
  ASSERT_NE(services.deadline(), Instant::never());
  now = services.deadline();
  services.handle_timeout(now);
  const auto info = answer();
  ASSERT_TRUE(info);
  EXPECT_EQ(info->error, wire::iwpm::kDriverTimedOut);
  EXPECT_EQ(services.deadline(), Instant::never());
}

TEST_F(PortMappersTest, KeepNothingForADriverThatIsGoneBeforeTheAnswer) {
  start_daemon();
  EXPECT_EQ(map(), 0);
  sockets.close(driver);
  run_daemon();
  run_daemon();
  EXPECT_EQ(services.mappings(kHost), 0U);
  EXPECT_TRUE(bound.empty());
}

TEST_F(PortMappersTest, RefuseWhatNoDriverSays) {
  EXPECT_EQ(ask(wire::iwpm::Hello{.abi = 4}, DriverOperation::Map), -EINVAL);
  EXPECT_EQ(ask(ConnectionInfo{}, DriverOperation::Answer), -EINVAL);
  EXPECT_EQ(ask(wire::iwpm::AddMapping{}, DriverOperation::Map), -EINVAL);
}

}  // namespace
}  // namespace weft::node
