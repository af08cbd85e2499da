#include "iwpm/mapper.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace weft::iwpm {
namespace {

using wire::IwpmMessageType;
using wire::iwpm::DaemonError;
using wire::iwpm::kClientIwcm;
using wire::iwpm::Operation;
using wire::iwpm::PeerMessage;

const IpAddress kIp = IpAddress::v4(0x0A00'0001);
const SocketAddress kLocal{kIp, 80};
const SocketAddress kRemote{IpAddress::v4(0x0A00'0002), 90};
const SocketAddress kPeer{IpAddress::v4(0x0A00'0002), 55'555};

struct Services final : MapperServices {
  Result<ReservedPort> reserve_port(IpFamily /*family*/, std::uint16_t wanted) override {
    const std::uint16_t number = wanted == 0 ? next++ : wanted;
    if (!bound.emplace(number, number).second) {
      return fail(ErrorCode::AddressInUse, "port {} is in use", number);
    }
    return ReservedPort{.handle = number, .number = number};
  }
  void release_port(PortHandle handle) override {
    EXPECT_EQ(bound.erase(static_cast<std::uint16_t>(handle)), 1U);
  }
  [[nodiscard]] bool owns_address(const IpAddress& address) const override {
    return address == kIp;
  }
  void send_to_kernel(std::vector<std::byte> datagram) override {
    kernel.push_back(std::move(datagram));
  }
  void send_to_peer(PeerSocket socket, const SocketAddress& peer,
                    std::vector<std::byte> datagram) override {
    sockets.push_back(socket);
    last_peer = peer;
    sizes.push_back(datagram.size());
    told_before.push_back(kernel.size());
    peers.push_back(*wire::iwpm::parse_peer_message(datagram));
  }
  void log(std::string line) override { lines.push_back(std::move(line)); }

  std::uint16_t next = 40'000;
  std::map<std::uint16_t, std::uint16_t> bound;
  std::vector<std::vector<std::byte>> kernel;
  std::vector<PeerMessage> peers;
  std::vector<std::size_t> sizes;
  std::vector<std::size_t> told_before;  // of each datagram: the kernel's messages until then
  std::vector<PeerSocket> sockets;
  SocketAddress last_peer;
  std::vector<std::string> lines;
};

class IwpmMapper : public ::testing::Test {
 protected:
  void SetUp() override {
    mapper_.start(now_);
    EXPECT_EQ(last<wire::iwpm::Hello>()->abi, 4);
    say(wire::iwpm::Hello{4});
    EXPECT_EQ(last<wire::iwpm::MapinfoRequest>()->library_version, 4);
    say(wire::iwpm::MapinfoCount{0, 0});
    say(wire::iwpm::RegisterPid{0, "eth0", "siw0", std::string{wire::iwpm::kLibraryName}});
    EXPECT_EQ(last<wire::iwpm::RegisterPidAnswer>()->device_name, "siw0");
  }
  void TearDown() override {
    mapper_.check_invariants();
    mapper_.stop();
    EXPECT_TRUE(services_.bound.empty());
  }

  template <class Message>
  void say(const Message& message) {
    std::vector<std::byte> datagram;
    ASSERT_TRUE(wire::iwpm::append(datagram, 4096, {.sequence = ++sequence_}, message));
    mapper_.handle_netlink(datagram, now_);
  }
  /// The last message to the kernel, if it is one of these.
  template <class Message>
  std::optional<Message> last(Operation operation = Message::kOperation) {
    if (services_.kernel.empty()) {
      return std::nullopt;
    }
    ByteSpan rest = services_.kernel.back();
    const auto message = wire::netlink::take_message(rest);
    const auto parsed = wire::iwpm::parse<Message>(message->payload);
    if (wire::iwpm::operation_of(message->header.type) != operation || !parsed) {
      return std::nullopt;
    }
    return *parsed;
  }
  [[nodiscard]] std::uint16_t last_error() {
    const auto error = last<wire::iwpm::HandleError>();
    return error && error->sequence == sequence_ ? error->error : std::uint16_t{0};
  }
  void hear(PeerMessage message, PeerSocket socket = PeerSocket::Server) {
    mapper_.handle_datagram(socket, kPeer, wire::iwpm::to_datagram(message), now_);
  }
  void pass(Duration span) {
    now_ = now_ + span;
    mapper_.handle_timeout(now_);
  }
  [[nodiscard]] unsigned users(const SocketAddress& local) const {
    for (const MappedPort& port : mapper_.mappings()) {
      if (port.local.is_same(local)) {
        return port.references;
      }
    }
    return 0;
  }

  Services services_;
  Mapper mapper_{
      services_, MapperOptions{.port = 7, .seed = 1}
  };
  Instant now_ = Instant{} + Duration::seconds(100);
  std::uint32_t sequence_ = 0;
};

TEST_F(IwpmMapper, MapsToAnotherPortUntilTheLastUserIsGone) {
  say(wire::iwpm::AddMapping{0, kLocal, 0});
  const auto answer = last<wire::iwpm::AddMappingAnswer>();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->sequence, sequence_);
  EXPECT_EQ(answer->local, kLocal);
  EXPECT_EQ(answer->mapped_local, kLocal.with_port(40'000));
  say(wire::iwpm::QueryMapping{0, kLocal, kRemote, 0});
  EXPECT_EQ(users(kLocal), 2U);
  say(wire::iwpm::RemoveMapping{0, kLocal});
  EXPECT_EQ(services_.bound.size(), 1U);
  say(wire::iwpm::RemoveMapping{0, kLocal});
  EXPECT_TRUE(services_.bound.empty());
  say(wire::iwpm::RemoveMapping{0, kLocal});  // never mapped: no error
  EXPECT_EQ(mapper_.mappings().size(), 0U);
}

TEST_F(IwpmMapper, SaysWhyItDoesNotMap) {
  say(wire::iwpm::AddMapping{0, kLocal, 0});
  say(wire::iwpm::AddMapping{0, kLocal, 0});
  EXPECT_EQ(last_error(), static_cast<std::uint16_t>(DaemonError::DuplicateMapping));
  say(wire::iwpm::AddMapping{
      0, {IpAddress::v4(0), 80},
       0
  });  // partly the same
  EXPECT_EQ(last_error(), static_cast<std::uint16_t>(DaemonError::DuplicateMapping));
  say(wire::iwpm::AddMapping{0, kRemote, 0});
  EXPECT_EQ(last_error(), static_cast<std::uint16_t>(DaemonError::CreateMapping));
  const SocketAddress any{IpAddress::v4(0), 81};
  say(wire::iwpm::AddMapping{0, any, 0});
  say(wire::iwpm::AddMapping{0, any, 0});
  EXPECT_EQ(users(any), 2U);
  say(wire::iwpm::QueryMapping{0, any, kRemote, 0});
  EXPECT_EQ(last_error(), static_cast<std::uint16_t>(DaemonError::CreateMapping));
  say(wire::iwpm::RegisterPid{0, "eth0", "siw0", "other"});
  EXPECT_EQ(last_error(), static_cast<std::uint16_t>(DaemonError::UserLibraryInfo));
  say(wire::iwpm::RegisterPid{0, "eth0", "", std::string{wire::iwpm::kLibraryName}});
  EXPECT_EQ(last_error(), static_cast<std::uint16_t>(DaemonError::ClientDeviceInfo));
  say(wire::iwpm::Hello{5});
  EXPECT_EQ(last_error(), static_cast<std::uint16_t>(DaemonError::VersionMismatch));
  std::vector<std::byte> empty;
  auto writer =
      wire::iwpm::create_message(empty, 64, {.sequence = ++sequence_}, Operation::AddMapping, 0);
  writer->end();
  mapper_.handle_netlink(empty, now_);
  EXPECT_EQ(last_error(), static_cast<std::uint16_t>(DaemonError::InvalidMessage));
}

TEST_F(IwpmMapper, KeepsARecordOnlyWhereNoPortIsWanted) {
  say(wire::iwpm::AddMapping{0, kLocal, wire::iwpm::kFlagNoPortMap});
  EXPECT_EQ(last<wire::iwpm::AddMappingAnswer>()->mapped_local, kLocal);
  EXPECT_TRUE(services_.bound.empty());
  EXPECT_EQ(users(kLocal), 1U);
}

TEST_F(IwpmMapper, AsksAPeerFourTimesAndThenGoesUnmapped) {
  say(wire::iwpm::QueryMapping{0, kLocal, kRemote, 0});
  ASSERT_EQ(services_.peers.size(), 1U);
  EXPECT_EQ(services_.sizes[0], 64U);
  EXPECT_EQ(services_.last_peer, kRemote.with_port(3935));
  EXPECT_EQ(services_.sockets[0], PeerSocket::Client);
  EXPECT_EQ(services_.peers[0].mapped_connecting, kLocal.with_port(40'000));
  for (std::size_t repeats = 1; repeats <= 3; ++repeats) {
    pass(Duration::milliseconds(999));
    EXPECT_EQ(services_.peers.size(), repeats);
    pass(Duration::milliseconds(1));
    ASSERT_EQ(services_.peers.size(), repeats + 1);
    EXPECT_EQ(services_.peers.back(), services_.peers.front());
  }
  EXPECT_FALSE(last<wire::iwpm::ConnectionInfo>().has_value());
  pass(Duration::seconds(1));
  EXPECT_EQ(services_.peers.size(), 4U);
  const auto answer = last<wire::iwpm::ConnectionInfo>();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->error, 16);
  EXPECT_EQ(answer->mapped_remote, kRemote);
  EXPECT_EQ(mapper_.open_exchanges(), 0U);
}

TEST_F(IwpmMapper, AcknowledgesEachAcceptAndTellsTheFirst) {
  say(wire::iwpm::QueryMapping{0, kLocal, kRemote, 0});
  PeerMessage accept = services_.peers.back();
  accept.type = IwpmMessageType::Accept;
  accept.mapped_connecting = {};
  accept.accepting = kRemote.with_port(50'000);
  PeerMessage wrong = accept;
  wrong.handle ^= 1;
  hear(wrong, PeerSocket::Client);
  wrong = accept;
  wrong.connecting.port ^= 1;
  hear(wrong, PeerSocket::Client);
  EXPECT_EQ(services_.peers.size(), 1U);
  const std::size_t told = services_.kernel.size();
  for (std::size_t times = 1; times <= 3; ++times) {
    hear(accept, PeerSocket::Client);
    ASSERT_EQ(services_.peers.size(), 1 + times);
    EXPECT_EQ(services_.peers.back().type, IwpmMessageType::Ack);
    EXPECT_EQ(services_.sizes.back(), 48U);
    EXPECT_EQ(services_.last_peer, kPeer);
  }
  EXPECT_EQ(services_.kernel.size(), told + 1);
  EXPECT_EQ(last<wire::iwpm::ConnectionInfo>()->mapped_remote, kRemote.with_port(50'000));
  pass(Duration::seconds(20));
  EXPECT_EQ(services_.peers.size(), 4U);  // nothing is asked again
}

TEST_F(IwpmMapper, RejectsWhatIsNotMappedAndHearsRejects) {
  hear({.type = IwpmMessageType::Request,
        .handle = 5,
        .connecting = kRemote,
        .accepting = kLocal,
        .mapped_connecting = kRemote.with_port(1)});
  EXPECT_EQ(services_.peers.back().type, IwpmMessageType::Reject);
  EXPECT_EQ(services_.peers.back().handle, 5U);
  say(wire::iwpm::QueryMapping{0, kLocal, kRemote, 0});
  PeerMessage reject = services_.peers.back();
  reject.type = IwpmMessageType::Reject;
  reject.mapped_connecting = {};
  hear(reject, PeerSocket::Client);
  EXPECT_EQ(last<wire::iwpm::ConnectionInfo>()->error, 16);
}

TEST_F(IwpmMapper, OffersUntilItIsAcknowledgedAndTellsTheKernelOnce) {
  say(wire::iwpm::AddMapping{0, kLocal, 0});
  const PeerMessage request{.type = IwpmMessageType::Request,
                            .handle = 5,
                            .connecting = kRemote,
                            .accepting = kLocal,
                            .mapped_connecting = kRemote.with_port(1)};
  const std::size_t told = services_.kernel.size();
  hear(request);
  hear(request);
  ASSERT_EQ(services_.peers.size(), 2U);
  EXPECT_EQ(services_.kernel.size(), told + 1);
  // The connection may come as soon as the peer has the accept.
  EXPECT_EQ(services_.told_before.front(), told + 1);
  const auto info = last<wire::iwpm::ConnectionInfo>(Operation::RemoteInfo);
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->mapped_remote, kRemote.with_port(1));
  EXPECT_EQ(info->mapped_local, kLocal.with_port(40'000));
  EXPECT_EQ(services_.peers.back().type, IwpmMessageType::Accept);
  EXPECT_EQ(services_.peers.back().accepting, kLocal.with_port(40'000));
  EXPECT_EQ(services_.sockets.back(), PeerSocket::Server);
  pass(Duration::seconds(1));
  EXPECT_EQ(services_.peers.size(), 3U);
  // Another host may have chosen the same handle.
  PeerMessage other = request;
  other.connecting.port = 91;
  hear(other);
  EXPECT_EQ(services_.kernel.size(), told + 2);
  PeerMessage ack = services_.peers[0];
  ack.type = IwpmMessageType::Ack;
  hear(ack);
  EXPECT_EQ(mapper_.open_exchanges(), 1U);
  pass(Duration::seconds(1));
  pass(Duration::seconds(1));
  pass(Duration::seconds(1));
  EXPECT_EQ(services_.peers.size(), 4U + 3U);
  pass(Duration::seconds(1));
  EXPECT_EQ(mapper_.open_exchanges(), 0U);
}

TEST_F(IwpmMapper, ReopensWhatTheKernelHasMapped) {
  const wire::iwpm::Mapinfo record{.local = kLocal, .mapped = kLocal.with_port(12'345), .flags = 0};
  mapper_.handle_overflow(now_);
  say(record);
  say(record);
  say(wire::iwpm::MapinfoCount{0, 2});
  EXPECT_EQ(last<wire::iwpm::MapinfoCountAnswer>()->received, 2U);
  EXPECT_TRUE(services_.bound.contains(12'345));
  EXPECT_EQ(users(kLocal), 2U);
  // Of mappings that the kernel no longer has, the ports are given back.
  pass(Duration::seconds(5));
  mapper_.handle_overflow(now_);
  say(wire::iwpm::MapinfoCount{0, 0});
  EXPECT_TRUE(mapper_.mappings().empty());
  // A count that does not fit the records: it asks again, and believes neither.
  const std::size_t told = services_.kernel.size();
  mapper_.handle_overflow(now_);
  say(record);
  say(wire::iwpm::MapinfoCount{0, 3});
  EXPECT_EQ(services_.kernel.size(), told + 3);
  EXPECT_TRUE(last<wire::iwpm::MapinfoRequest>().has_value());
  EXPECT_EQ(users(kLocal), 1U);
}

TEST_F(IwpmMapper, CountsEachUserOnceWhenMessagesAreLostDuringAReplay) {
  const wire::iwpm::Mapinfo record{.local = kLocal, .mapped = kLocal.with_port(12'345), .flags = 0};
  mapper_.handle_overflow(now_);
  say(record);
  mapper_.handle_overflow(now_);  // what follows is still of the first replay
  say(record);
  say(wire::iwpm::MapinfoCount{0, 2});
  ASSERT_TRUE(last<wire::iwpm::MapinfoRequest>().has_value());
  say(record);
  say(record);
  say(wire::iwpm::MapinfoCount{0, 2});
  EXPECT_EQ(users(kLocal), 2U);
  say(record);  // not asked for
  EXPECT_EQ(users(kLocal), 2U);
}

TEST_F(IwpmMapper, AsksAgainWhenTheNumberOfMappingsIsLost) {
  mapper_.handle_overflow(now_);
  const std::size_t told = services_.kernel.size();
  pass(Duration::milliseconds(300));
  EXPECT_EQ(services_.kernel.size(), told + 1);
  EXPECT_TRUE(last<wire::iwpm::MapinfoRequest>().has_value());
  say(wire::iwpm::MapinfoCount{0, 0});
  pass(Duration::seconds(1));
  EXPECT_EQ(services_.kernel.size(), told + 2);
}

TEST(IwpmMapperStart, TakesAKernelThatDoesNotAnswerForVersion3) {
  Services services;
  Mapper mapper{services, MapperOptions{}};
  Instant now{};
  mapper.start(now);
  for (int second = 1; second <= 3; ++second) {
    EXPECT_FALSE(mapper.abi().has_value());
    now = now + Duration::seconds(1);
    mapper.handle_timeout(now);
  }
  EXPECT_EQ(mapper.abi().value_or(0), 3);
  EXPECT_EQ(services.kernel.size(), 3U + 2U);  // hellos, and both clients are asked for mappings
  // Linux says nothing when it has no mappings: the mapper asks some times, and rests.
  for (int turn = 0; turn < 4; ++turn) {
    now = now + Duration::milliseconds(300);
    mapper.handle_timeout(now);
  }
  EXPECT_EQ(services.kernel.size(), 3U + 2U * 4U);
  EXPECT_EQ(mapper.poll_deadline(), Instant::never());
}

}  // namespace
}  // namespace weft::iwpm
