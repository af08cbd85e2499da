// T-CMRC-4: packets exchanged by CmReliableConnections.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "cm/cmrc.h"
#include "cm/testing/network.h"
#include "hca/testing/loopback_pair.h"
#include "sim/cm_qp.h"
#include "verbs/mtu.h"

namespace weft::sim {
namespace {

constexpr std::size_t kMtu = 4096;
constexpr std::size_t kMebibyte = std::size_t{1} << 20;
constexpr std::uint64_t kService = 0x9000;

/// Octets that depend on position and message.
std::vector<std::byte> pattern(std::size_t bytes, unsigned message) {
  std::vector<std::byte> made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    made[i] = static_cast<std::byte>((i * 31 + i / 251 + message) & 0xFF);
  }
  return made;
}

class Talker final : public cm::CmrcQp, public cm::CmrcUser {
 public:
  Talker(hca::testing::Side& side, cm::TestHost& host, Psn starting_psn)
      : qp(CmQp::create(side.hca, *side.pd, starting_psn, kMebibyte).value()),
        connection(host.cm, *this, *this) {}

  [[nodiscard]] Qpn number() const override { return qp->number(); }
  [[nodiscard]] Psn starting_psn() const override { return qp->starting_psn(); }
  [[nodiscard]] std::size_t max_message_bytes() const override { return qp->max_bytes(); }
  [[nodiscard]] Result<void> modify(const verbs::QpModification& attributes) override {
    return qp->modify(attributes);
  }
  [[nodiscard]] Result<void> send(ByteSpan datagram) override { return qp->send(datagram); }

  void handle_datagram(ByteSpan datagram, Instant /*now*/) override {
    datagrams.emplace_back(datagram.begin(), datagram.end());
  }
  void handle_connected(Instant /*now*/) override {}
  void handle_closed(const Error& why, Instant /*now*/) override { ADD_FAILURE() << why.reason; }

  void take_messages(Instant now) {
    const CmQp::Completions polled = qp->poll();
    EXPECT_FALSE(polled.has_failed);
    for (const auto& message : polled.messages) {
      connection.handle_receive(message, now);
    }
  }

  std::unique_ptr<CmQp> qp;
  cm::CmReliableConnection connection;
  std::vector<std::vector<std::byte>> datagrams;
};

struct CmrcData : ::testing::Test {
  hca::testing::LoopbackPair wire;
  cm::TestCmNetwork net;
  Talker client{wire.a(), net.a(), Psn{0xFF'FFF0}};  // the PSNs of 1 MiB wrap around
  Talker server{wire.b(), net.b(), Psn{0x200}};

  void SetUp() override {
    for (int side : {0, 1}) {  // the ports are those that the connection managers know
      hca::PortAttributes port;
      port.state = hca::PortState::Active;
      port.lid = hca::testing::lid_of(side);
      port.pkeys = net.a().address().pkeys;
      port.gids = {side == 0 ? net.a().gid() : net.b().gid()};
      wire.side(side).hca.set_port(PortNumber{1}, port);
    }
    static_cast<void>(net.b().listener(kService));
    net.b().on_event = [this](cm::CmId id, const cm::CmEvent& event, Instant now) {
      EXPECT_TRUE(server.connection.accept(id, event, now).has_value());
      return cm::Handled::Keep;
    };
    cm::Path path = cm::TestCmNetwork::path(net.a(), net.b());
    path.mtu = verbs::Mtu::Mtu4096;
    ASSERT_TRUE(client.connection.open(path, kService).has_value());
    ASSERT_TRUE(client.connection.write(pattern(8, 0), net.now).has_value());
    net.run_shortly();
    ASSERT_TRUE(server.connection.write(pattern(8, 1), net.now).has_value());
    net.run_shortly();
    ASSERT_EQ(client.connection.window(), kMebibyte);
    ASSERT_EQ(server.connection.window(), kMebibyte);
  }

  void carry() {
    ASSERT_TRUE(wire.run());
    for (Talker* const talker : {&client, &server}) {
      talker->take_messages(net.now);
    }
  }

  /// Payload lengths of the SENDs to that side, in order.
  [[nodiscard]] std::vector<std::size_t> payloads_to(int side) const {
    std::vector<std::size_t> sizes;
    for (const hca::testing::InFlightPacket& in_flight_packet : wire.sent) {
      if (in_flight_packet.to == side && in_flight_packet.flow == hca::Flow::Request) {
        sizes.push_back(in_flight_packet.payload.size());
      }
    }
    return sizes;
  }
};

TEST_F(CmrcData, DatagramOfTheMtuIsOnePacket) {  // T-CMRC-4, part of T-MI-8
  ASSERT_TRUE(client.connection.write(pattern(kMtu, 2), net.now).has_value());
  carry();
  EXPECT_EQ(payloads_to(1), std::vector<std::size_t>{kMtu});
  EXPECT_EQ(wire.sent.front().header.opcode, wire::Opcode::RcSendOnly);
  ASSERT_EQ(server.datagrams.size(), 2U);
  EXPECT_EQ(server.datagrams.back(), pattern(kMtu, 2));
}

TEST_F(CmrcData, MessageOfAMebibyteIsSegmentedAndWholeAgain) {  // T-CMRC-4
  for (const unsigned message : {2U, 3U}) {
    ASSERT_TRUE(client.connection.write(pattern(kMebibyte, message), net.now).has_value());
    ASSERT_TRUE(server.connection.write(pattern(kMebibyte, message + 8), net.now).has_value());
  }
  carry();
  for (const int side : {0, 1}) {
    EXPECT_EQ(payloads_to(side), std::vector<std::size_t>(2 * kMebibyte / kMtu, kMtu));
  }
  const auto expect_both = [](const Talker& talker, unsigned first) {
    ASSERT_EQ(talker.datagrams.size(), 3U);
    EXPECT_TRUE(talker.datagrams[1] == pattern(kMebibyte, first));
    EXPECT_TRUE(talker.datagrams[2] == pattern(kMebibyte, first + 1));
  };
  expect_both(server, 2);
  expect_both(client, 10);
}

TEST_F(CmrcData, LongerDatagramThanTheWindowIsRefused) {  // R-CMRC-4
  EXPECT_FALSE(client.connection.write(pattern(kMebibyte + 1, 2), net.now).has_value());
  ASSERT_TRUE(client.connection.write(pattern(kMebibyte, 3), net.now).has_value());
  carry();
  ASSERT_EQ(server.datagrams.size(), 2U);
  EXPECT_TRUE(server.datagrams.back() == pattern(kMebibyte, 3));
}

}  // namespace
}  // namespace weft::sim
