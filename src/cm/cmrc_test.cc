// T-CMRC-1 to T-CMRC-3, as far as they need no data path: the QPs are scripted.

#include "cm/cmrc.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "cm/testing/network.h"

namespace weft::cm {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::byte> octets(std::string_view text) {
  const auto bytes = std::as_bytes(std::span{text});
  return {bytes.begin(), bytes.end()};
}

std::string text_of(ByteSpan datagram) {
  std::string text;
  for (const std::byte octet : datagram) {
    if (octet != std::byte{}) {
      text += std::to_integer<char>(octet);
    }
  }
  return text;
}

class ScriptedQp final : public CmrcQp {
 public:
  explicit ScriptedQp(std::uint32_t number) : number_(number) {}
  [[nodiscard]] Qpn number() const override { return Qpn{number_}; }
  [[nodiscard]] Psn starting_psn() const override { return Psn{number_}; }
  [[nodiscard]] std::size_t max_message_bytes() const override { return 2048; }
  [[nodiscard]] Result<void> modify(const QpModification& to) override {
    states.push_back(to.attributes.state);
    rq_psn = to.mask.has(QpAttribute::RqPsn) ? to.attributes.rq_psn : rq_psn;
    sq_psn = to.mask.has(QpAttribute::SqPsn) ? to.attributes.sq_psn : sq_psn;
    return {};
  }
  [[nodiscard]] Result<void> send(ByteSpan datagram) override {
    if (is_broken) {
      return fail(ErrorCode::Io, "broken");
    }
    sent.push_back(text_of(datagram));
    return {};
  }
  std::vector<QpState> states;
  Psn rq_psn{};
  Psn sq_psn{};
  std::vector<std::string> sent;
  bool is_broken{};

 private:
  std::uint32_t number_;
};

class User final : public CmrcUser {
 public:
  void handle_datagram(ByteSpan datagram, Instant now) override {
    log.push_back(text_of(datagram));
    sizes.push_back(datagram.size());
    if (closes != nullptr) {
      closes->close(now);
    }
  }
  void handle_connected(Instant) override { log.emplace_back("<connected>"); }
  void handle_closed(const Error& why, Instant) override {
    log.emplace_back("<closed>");
    code = why.code;
  }
  std::vector<std::string> log;
  std::vector<std::size_t> sizes;
  ErrorCode code{};
  CmReliableConnection* closes{};
};

struct Fixture {
  TestCmNetwork net;
  ScriptedQp client_qp{0x31};
  ScriptedQp server_qp{0x32};
  User client_user;
  User server_user;
  CmReliableConnection client{net.a().cm, client_qp, client_user};
  CmReliableConnection server{net.b().cm, server_qp, server_user};

  Fixture() {
    (void)net.b().listener(0x9000);
    net.b().on_event = [this](CmId id, const CmEvent& event, Instant now) {
      EXPECT_TRUE(server.accept(id, event, now).has_value());
      return Handled::Keep;
    };
    EXPECT_TRUE(client.open(TestCmNetwork::path(net.a(), net.b()), 0x9000).has_value());
  }
  void connect() {
    ASSERT_TRUE(client.write(octets("one"), net.now).has_value());
    net.run_shortly();
    ASSERT_TRUE(server.write(octets("two"), net.now).has_value());
    net.run_shortly();
  }
};

TEST(Cmrc, FirstDatagramsGoWithTheConnectionAndTheRestBySend) {  // T-CMRC-1, R-CMRC-1, R-CMRC-3
  Fixture f;
  EXPECT_THAT(f.net.sent, IsEmpty());
  EXPECT_EQ(f.client.window(), 0U);
  f.connect();
  EXPECT_THAT(f.server_user.log, ElementsAre("one", "<connected>"));
  EXPECT_EQ(f.server_user.sizes.at(0), kReqPrivateData);
  EXPECT_THAT(f.client_user.log, ElementsAre("two", "<connected>"));
  EXPECT_EQ(f.client.window(), 2048U);
  ASSERT_TRUE(f.client.write(octets("three"), f.net.now).has_value());
  EXPECT_THAT(f.client_qp.sent, ElementsAre("three"));
  f.server.handle_receive(octets("three"), f.net.now);
  EXPECT_THAT(f.server_user.log, ElementsAre("one", "<connected>", "three"));
  EXPECT_THAT(f.client_qp.states, ElementsAre(QpState::Init, QpState::Rtr, QpState::Rts));
  EXPECT_THAT(f.server_qp.states, ElementsAre(QpState::Init, QpState::Rtr, QpState::Rts));
}

TEST(Cmrc, QpsExpectThePsnThatTheirPeersBeginWith) {  // R-CM-3
  Fixture f;
  f.connect();
  EXPECT_EQ(f.client_qp.rq_psn, f.client_qp.starting_psn());
  EXPECT_EQ(f.server_qp.rq_psn, f.server_qp.starting_psn());
  EXPECT_EQ(f.client_qp.rq_psn, f.server_qp.sq_psn);
  EXPECT_EQ(f.server_qp.rq_psn, f.client_qp.sq_psn);
}

TEST(Cmrc, ReaderSeesWhatARejectSaysAndThenTheError) {  // T-CMRC-2
  Fixture f;
  ASSERT_TRUE(f.client.write(octets("one"), f.net.now).has_value());
  f.net.run_shortly();
  ASSERT_TRUE(f.server.reject(octets("no"), f.net.now).has_value());
  f.net.run_shortly();
  EXPECT_THAT(f.client_user.log, ElementsAre("no", "<closed>"));
  EXPECT_EQ(f.client_user.code, ErrorCode::Refused);
}

TEST(Cmrc, EachKindOfRejectionIsAnErrorOfItsOwn) {  // R-MI-4
  using enum wire::RejectReason;
  for (const auto& [reason, code] : {
           std::pair{InvalidServiceId, ErrorCode::NoSuchDevice    },
           std::pair{StaleConnection,  ErrorCode::AlreadyConnected},
           std::pair{ConsumerReject,   ErrorCode::Refused         },
           std::pair{NoResources,      ErrorCode::PermissionDenied},
  }) {
    Fixture f;
    f.net.b().on_event = [&](CmId id, const CmEvent& /*event*/, Instant now) {
      EXPECT_TRUE(f.net.b().cm.send_rej(id, {.reason = reason}, now).has_value());
      return Handled::Keep;
    };
    ASSERT_TRUE(f.client.write(octets("one"), f.net.now).has_value());
    f.net.run_shortly();
    EXPECT_EQ(f.client_user.log.back(), "<closed>");
    EXPECT_EQ(f.client_user.code, code) << name_of(reason);
  }
}

TEST(Cmrc, ARejOfAConnectionThatIsMadeIsNoDatagram) {  // R-CMRC-3
  Fixture f;
  ASSERT_TRUE(f.client.write(octets("one"), f.net.now).has_value());
  f.net.run_shortly();
  ASSERT_TRUE(f.server.write(octets("two"), f.net.now).has_value());
  f.net.loses = [](const auto& sent) { return sent.attribute == wire::CmAttribute::Rtu; };
  f.net.run_shortly();
  f.server.close(f.net.now);
  f.net.run_shortly();
  EXPECT_THAT(f.client_user.log, ElementsAre("two", "<connected>", "<closed>"));
}

TEST(Cmrc, WritingTooEarlyCloses) {  // T-CMRC-3, R-CMRC-2
  Fixture f;
  ASSERT_TRUE(f.client.write(octets("one"), f.net.now).has_value());
  const auto early = f.client.write(octets("two"), f.net.now);
  ASSERT_FALSE(early.has_value());
  EXPECT_EQ(early.error().code, ErrorCode::Io);
  EXPECT_THAT(f.client_user.log, ElementsAre("<closed>"));
  EXPECT_FALSE(f.client.write(octets("three"), f.net.now).has_value());
  EXPECT_THAT(f.client_user.log, ElementsAre("<closed>"));
}

TEST(Cmrc, MayBeClosedFromItsReader) {  // T-CMRC-3
  Fixture f;
  f.client_user.closes = &f.client;
  f.connect();
  EXPECT_THAT(f.client_user.log, ElementsAre("two"));
  f.net.run();
  EXPECT_THAT(f.server_user.log, ElementsAre("one", "<connected>", "<closed>"));
}

TEST(Cmrc, RefusesAFirstDatagramThatIsTooLong) {  // R-CMRC-6
  Fixture f;
  const std::vector<std::byte> long_data(93);
  EXPECT_EQ(f.client.write(long_data, f.net.now).error().code, ErrorCode::InvalidArgument);
  EXPECT_THAT(f.net.sent, IsEmpty());
  f.connect();
  EXPECT_EQ(f.client.window(), 2048U);
}

TEST(Cmrc, ErrorsOfTheQpClose) {  // R-CMRC-5
  Fixture f;
  f.connect();
  f.client_qp.is_broken = true;
  EXPECT_EQ(f.client.write(octets("x"), f.net.now).error().code, ErrorCode::Io);
  f.server.handle_qp_error({ErrorCode::Io, "flushed"}, f.net.now);
  EXPECT_EQ(f.client_user.log.back(), "<closed>");
  EXPECT_EQ(f.server_user.log.back(), "<closed>");
  f.net.run();
  EXPECT_THAT(f.net.a().cm.ids(), IsEmpty());
}

TEST(Cmrc, MessageBeforeTheRtuConnectsTheServer) {
  Fixture f;
  ASSERT_TRUE(f.client.write(octets("one"), f.net.now).has_value());
  f.net.run_shortly();
  ASSERT_TRUE(f.server.write(octets("two"), f.net.now).has_value());
  f.server.handle_receive(octets("three"), f.net.now);
  EXPECT_THAT(f.server_user.log, ElementsAre("one", "<connected>", "three"));
  f.net.run_shortly();
  EXPECT_THAT(f.server_user.log, ElementsAre("one", "<connected>", "three"));
}

}  // namespace
}  // namespace weft::cm
