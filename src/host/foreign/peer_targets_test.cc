#include "host/foreign/peer_targets.h"

#include <gtest/gtest.h>

#include "base/process_slot.h"
#include "host/testing/fake_process.h"

namespace weft::host {
namespace {

constexpr std::uint32_t kDomain = 9;
constexpr uabi::ProcessAddress kHome{.node = 0, .slot = 5};
constexpr uabi::ProcessAddress kLiar{.node = 0, .slot = 6};
const Qpn kTarget = first_qpn_of(kHome.slot);

class TargetsElsewhere : public ::testing::Test {
 protected:
  TargetsElsewhere() {
    daemon_.reply = [this](const uabi::Message& message) {
      if (const auto* asked = message.get_if<uabi::XrcTargetRequest>();
          asked != nullptr && asked->verb != uabi::TargetVerb::Close) {
        answer_(*asked);
      }
    };
  }
  ~TargetsElsewhere() override { daemon_.finish(); }
  [[nodiscard]] static uabi::XrcTargetEvent event_from(uabi::ProcessAddress peer) {
    return {.peer = peer,
            .domain = kDomain,
            .target = kTarget,
            .event = verbs::AsyncEventType::CommunicationEstablished};
  }

  testing::FakeDaemon daemon_;
  testing::FakeProgram program_;
  ForeignTargets targets_{daemon_, program_, std::chrono::milliseconds{2'000}};
  std::function<void(const uabi::XrcTargetRequest&)> answer_{
      [this](const uabi::XrcTargetRequest& asked) {
        uabi::XrcTargetAnswer answer;
        answer.peer = asked.peer;
        answer.serial = asked.serial;
        answer.attributes.path_mtu = verbs::Mtu::Mtu1024;
        targets_.handle(answer);
      }};
};

TEST_F(TargetsElsewhere, AreAskedForWhereTheirNumberSays) {
  ASSERT_TRUE(targets_.open(kDomain, kTarget));
  const auto asked = daemon_.take<uabi::XrcTargetRequest>();
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].peer, kHome);
  EXPECT_EQ(asked[0].verb, uabi::TargetVerb::Open);
}

TEST_F(TargetsElsewhere, AreClosedThereWithTheLastHandle) {
  ASSERT_TRUE(targets_.open(kDomain, kTarget));
  ASSERT_TRUE(targets_.open(kDomain, kTarget));
  static_cast<void>(daemon_.take<uabi::XrcTargetRequest>());
  targets_.close(kDomain, kTarget);
  EXPECT_TRUE(daemon_.take<uabi::XrcTargetRequest>().empty());
  targets_.close(kDomain, kTarget);
  const auto told = daemon_.take<uabi::XrcTargetRequest>();
  ASSERT_EQ(told.size(), 1U);
  EXPECT_EQ(told[0].verb, uabi::TargetVerb::Close);
}

TEST_F(TargetsElsewhere, AreNotOpenWhenTheirProcessRefuses) {
  daemon_.finish();
  answer_ = [this](const uabi::XrcTargetRequest& asked) {
    uabi::XrcTargetAnswer answer;
    answer.peer = asked.peer;
    answer.serial = asked.serial;
    put_error(answer, {ErrorCode::OutOfMemory, "too many"});
    targets_.handle(answer);
  };
  const auto opened = targets_.open(kDomain, kTarget);
  ASSERT_FALSE(opened);
  EXPECT_EQ(opened.error().reason, "too many");
  targets_.handle(event_from(kHome));
  EXPECT_TRUE(program_.target_events.empty());
}

TEST_F(TargetsElsewhere, BelieveNobodyButTheirProcess) {
  ASSERT_TRUE(targets_.open(kDomain, kTarget));
  targets_.handle(event_from(kLiar));
  EXPECT_TRUE(program_.target_events.empty());
  targets_.handle(event_from(kHome));
  EXPECT_EQ(program_.target_events.size(), 1U);
  daemon_.finish();
  answer_ = [this](const uabi::XrcTargetRequest& asked) {
    uabi::XrcTargetAnswer answer;
    answer.peer = kLiar;
    answer.serial = asked.serial;
    put_error(answer, {ErrorCode::Io, "a lie"});
    targets_.handle(answer);
    answer.peer = kHome;
    answer.error = 0;
    targets_.handle(answer);
  };
  EXPECT_TRUE(targets_.modify(kDomain, kTarget, {}, {}));
}

TEST_F(TargetsElsewhere, AreInTheErrorStateWhenTheirProcessIsGone) {
  ASSERT_TRUE(targets_.open(kDomain, kTarget));
  daemon_.finish();
  answer_ = [this](const uabi::XrcTargetRequest& asked) { targets_.lose(asked.peer, kDomain); };
  const auto state = targets_.query(kDomain, kTarget);
  daemon_.finish();
  ASSERT_TRUE(state);
  EXPECT_EQ(state->state, hca::QpState::Err);
  ASSERT_EQ(program_.target_events.size(), 1U);
  EXPECT_EQ(program_.target_events[0].second, hca::AsyncEventType::QpFatal);
}

}  // namespace
}  // namespace weft::host
