// Hello and its reply, from both ends, as they are to be and otherwise.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "ulp/iser/testing/world.h"
#include "wire/iscsi/nop.h"

namespace weft::iser {
namespace {

using testing::PduLog;
using testing::World;
using wire::iscsi::ScsiResponse;
using wire::iser::Hello;
using wire::iser::HelloReply;

class IserHello : public ::testing::Test {
 protected:
  /// What the message of a packet is; none: the packet begins no message.
  [[nodiscard]] static std::optional<unsigned> kind_of(
      const core::testing::EngineNetwork::Flight& flight) {
    const bool begins = flight.header.opcode == ::weft::wire::Opcode::RcSendOnly ||
                        flight.header.opcode == ::weft::wire::Opcode::RcSendFirst;
    return begins && !flight.payload.empty()
               ? std::optional{std::to_integer<unsigned>(flight.payload[0]) >> 4}
               : std::nullopt;
  }
  /// Connects, and waits for the target's last login response.
  void log_in(std::optional<bool> declares_hello) {
    world_.declares_hello = declares_hello;
    world_.connect(log_);
    world_.send_login();
    static_cast<void>(world_.next<wire::iscsi::LoginResponse>(log_));
  }
  /// Logs in by Hello, whose reply the network keeps losing.
  void log_in_without_reply() {
    world_.network.filter = [](const auto& flight) {
      return flight.from == 0 || kind_of(flight) != 3U;
    };
    log_in(true);
    EXPECT_FALSE(world_.link().agree({.says_hello = true}));
  }
  void receive(const HelloReply& reply) {
    ReceiveBuffer buffer;
    world_.link().handle_message(buffer, wire::pack(reply), std::nullopt);
  }
  void send(const Hello& hello) {
    Channel& channel = *world_.link().channel();
    const auto packed = wire::pack(hello);
    SendRequests requests;
    requests.push_back(channel.make_send(ByteSpan{packed}));
    requests.back()->must_signal = true;
    ASSERT_TRUE(channel.sends().post(std::move(requests)));
  }
  void expect_lost(std::string_view reason) {
    EXPECT_TRUE(
        world_.environment.wait_until([&] { return log_.losses != 0 && world_.targets_gone == 1; },
                                      world_.environment.now() + Duration::seconds(5)));
    EXPECT_NE(log_.reason.find(reason), std::string::npos) << log_.reason;
    world_.initiator->stop(*world_.connection, StopFlag::Recover);
  }

  World world_;
  PduLog log_;
};

TEST_F(IserHello, AndItsReplyAreTheFirstMessagesAfterLogin) {
  std::vector<std::pair<std::size_t, unsigned>> kinds;
  world_.network.filter = [&](const auto& flight) {
    if (const auto kind = kind_of(flight)) {
      kinds.emplace_back(flight.from, *kind);
    }
    return true;
  };
  world_.declares_hello = true;
  world_.connect(log_);
  world_.login(log_, {.says_hello = true});  // and a command
  const std::vector<std::pair<std::size_t, unsigned>> wanted{
      {0, 1}, // login
      {1, 1},
      {0, 2}, // Hello
      {1, 3},
      {0, 1}, // the command
      {1, 1}
  };
  EXPECT_EQ(kinds, wanted);
  EXPECT_FALSE(world_.link().awaits_hello_reply());
  EXPECT_EQ(log_.agreed, 1U);
}

TEST_F(IserHello, NothingIsSentBeforeTheReply) {
  log_in_without_reply();
  Task task;
  world_.number(task);
  const auto sent = world_.link().transmit(task);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::TryAgain);
  const auto control = world_.link().send_control(iscsi::OutgoingPdu{wire::iscsi::NopOut{}});
  ASSERT_FALSE(control);
  EXPECT_EQ(control.error().code, ErrorCode::TryAgain);
  world_.environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(log_.agreed, 0U);
  unsigned room = 0;
  world_.link().room_notice = [&room] { ++room; };
  receive({.ord = 4});
  EXPECT_EQ(log_.agreed, 1U);
  EXPECT_EQ(room, 1U);
  EXPECT_EQ(world_.link().state(), ConnectionState::Up);
  world_.link().room_notice = {};
  EXPECT_TRUE(world_.link().send_control(iscsi::OutgoingPdu{wire::iscsi::NopOut{}}));
}

TEST_F(IserHello, ThatIsRejectedEndsTheConnection) {
  log_in_without_reply();
  receive({.rejected = true, .max_version = 11});
  expect_lost("up to 11");
  EXPECT_EQ(log_.agreed, 0U) << "nobody has logged in";
}

TEST_F(IserHello, OfAnotherVersionEndsTheConnection) {
  log_in_without_reply();
  receive({.max_version = 12, .current_version = 12});
  expect_lost("up to 12");
}

TEST_F(IserHello, WhoseReplyHasMoreReadsThanItSaysEndsTheConnection) {
  log_in_without_reply();
  receive({.ord = 0x101});
  expect_lost("RDMA READs under way");
}

TEST_F(IserHello, APduBeforeTheReplyEndsTheConnection) {
  log_in_without_reply();
  ReceiveBuffer buffer;
  ScsiResponse response;
  response.initiator_task_tag = 1;
  world_.link().handle_message(buffer, to_message({}, iscsi::OutgoingPdu{response}), std::nullopt);
  expect_lost("where the reply to Hello is due");
}

TEST_F(IserHello, AReplyThatNobodyAskedForEndsTheConnection) {
  world_.connect(log_);
  world_.login(log_);
  receive({.ord = 4});
  expect_lost("was not sent");
}

TEST_F(IserHello, AHelloToAnInitiatorEndsTheConnection) {
  world_.connect(log_);
  world_.login(log_);
  ReceiveBuffer buffer;
  world_.link().handle_message(buffer, wire::pack(Hello{}), std::nullopt);
  expect_lost("a Hello to an initiator");
}

/// What a target replies to that Hello, which this initiator has not asked it for.
class IserHelloReply : public IserHello {
 protected:
  [[nodiscard]] HelloReply reply_to(const Hello& hello) {
    std::vector<std::byte> reply;
    world_.network.filter = [&](const auto& flight) {
      if (flight.from == 1 && kind_of(flight) == 3U) {
        reply = flight.payload;
      }
      return true;
    };
    log_in(std::nullopt);
    send(hello);
    EXPECT_TRUE(world_.environment.wait_until([&] { return world_.targets_gone == 1; },
                                              world_.environment.now() + Duration::seconds(5)));
    world_.network.filter = nullptr;
    world_.initiator->stop(*world_.connection, StopFlag::Recover);
    return wire::parse<HelloReply>(reply).value_or(HelloReply{.max_version = 0});
  }
};

// RFC 7145 §9.3, §9.4.
TEST_F(IserHelloReply, RejectsVersionsBelowItsOwn) {
  const HelloReply reply = reply_to({.max_version = 9, .min_version = 1, .ird = 4});
  EXPECT_TRUE(reply.rejected);
  EXPECT_EQ(reply.max_version, wire::iser::kVersion);
  EXPECT_NE(world_.movers.front()->reason().find("no version"), std::string::npos);
}

TEST_F(IserHelloReply, RejectsVersionsAboveItsOwn) {
  EXPECT_TRUE(reply_to({.max_version = 12, .min_version = 11, .ird = 4}).rejected);
}

TEST_F(IserHelloReply, RejectsVersionsThatAreNone) {
  EXPECT_TRUE(reply_to({.max_version = 9, .min_version = 11, .ird = 4}).rejected);
}

// The target has no more READs under way than it may, nor than the initiator answers.
TEST_F(IserHelloReply, HasTheReadsThatTheInitiatorAnswers) {
  const HelloReply reply = reply_to({.max_version = 12, .min_version = 9, .ird = 4});
  EXPECT_FALSE(reply.rejected);
  EXPECT_EQ(reply.current_version, wire::iser::kVersion);
  EXPECT_EQ(reply.ord, 4);
}

TEST_F(IserHelloReply, HasTheReadsThatTheTargetHas) {
  EXPECT_EQ(reply_to({.ird = 100}).ord, TargetOptions{}.reads);
}

// RFC 7145 §10.1.3.2: a target without READs takes none who has to let it READ.
TEST(IserHelloWithoutReads, IsRejected) {
  World world{1, {.reads = 0}};
  PduLog log;
  world.declares_hello = true;
  world.connect(log);
  world.send_login();
  static_cast<void>(world.next<wire::iscsi::LoginResponse>(log));
  EXPECT_FALSE(world.link().agree({.says_hello = true}));
  EXPECT_TRUE(world.environment.wait_until([&] { return log.losses == 1; },
                                           world.environment.now() + Duration::seconds(5)));
  EXPECT_NE(log.reason.find("does not take the Hello"), std::string::npos) << log.reason;
  EXPECT_EQ(log.agreed, 0U);
  world.initiator->stop(*world.connection, StopFlag::Recover);
}

/// How a target ends connections whose messages are not those that were agreed on.
class IserHelloError : public IserHello {
 protected:
  void expect_ended(std::string_view reason) {
    ASSERT_TRUE(world_.environment.wait_until([&] { return world_.targets_gone == 1; },
                                              world_.environment.now() + Duration::seconds(5)));
    EXPECT_NE(world_.movers.front()->reason().find(reason), std::string::npos)
        << world_.movers.front()->reason();
    world_.initiator->stop(*world_.connection, StopFlag::Recover);
  }
};

TEST_F(IserHelloError, ThatIsNotTheFirstMessage) {
  world_.connect(log_);
  world_.login(log_);  // and a command
  send({.ird = 4});
  expect_ended("not the first message");
}

TEST_F(IserHelloError, BeforeTheEndOfLogin) {
  world_.connect(log_);
  send({.ird = 4});
  expect_ended("not the first message");
}

// RFC 7145 §10.1.3.4.
TEST_F(IserHelloError, AnotherMessageWhereAHelloWasAgreedOn) {
  log_in(true);
  EXPECT_TRUE(world_.link().agree({}));
  Task task;
  world_.number(task);
  EXPECT_TRUE(world_.link().transmit(task));
  expect_ended("not the Hello that was agreed on");
  EXPECT_EQ(log_.came.size(), 0U) << "the command was not executed";
}

// RFC 7145 §5.1.3.
TEST_F(IserHelloError, WhereTheInitiatorHasDeclaredThatItSendsNone) {
  log_in(false);
  EXPECT_FALSE(world_.link().agree({.says_hello = true}));
  expect_ended("iSERHelloRequired is No");
}

// The reply is the first message of a target: what it has to say on its own waits.
TEST_F(IserHello, ATargetSaysNothingBeforeItsReply) {
  log_in(true);
  wire::iscsi::NopIn ping;
  ping.initiator_task_tag = wire::iscsi::kNoTag;
  world_.movers.front()->send_control(iscsi::OutgoingPdu{ping});
  world_.environment.advance(Duration::milliseconds(1));
  EXPECT_TRUE(log_.came.empty());
  EXPECT_FALSE(world_.link().agree({.says_hello = true}));
  static_cast<void>(world_.next<wire::iscsi::NopIn>(log_));
  EXPECT_EQ(log_.agreed, 1U) << "the reply came before it";
  EXPECT_EQ(world_.link().state(), ConnectionState::Up);
}

}  // namespace
}  // namespace weft::iser
