#include "host/foreign/shared_targets.h"

#include <gtest/gtest.h>

#include "host/foreign/pending_requests.h"
#include "host/testing/fake_process.h"

namespace weft::host {
namespace {

constexpr std::uint32_t kDomain = 9;
constexpr uabi::ProcessAddress kPeer{.node = 0, .slot = 5};
constexpr uabi::ProcessAddress kOther{.node = 0, .slot = 6};

class TargetsOfThisProcess : public ::testing::Test {
 protected:
  TargetsOfThisProcess() { targets_.note(0, qp_); }

  uabi::XrcTargetAnswer ask(uabi::TargetVerb verb, uabi::ProcessAddress peer = kPeer) {
    uabi::XrcTargetRequest question;
    question.peer = peer;
    question.domain = kDomain;
    question.serial = 4;
    question.verb = verb;
    question.target = qp_.number();
    question.modification.mask = hca::QpAttributeMask{hca::QpAttribute::State} |
                                 hca::QpAttribute::PKeyIndex | hca::QpAttribute::Port |
                                 hca::QpAttribute::RemoteAccess;
    question.modification.attributes.state = hca::QpState::Init;
    question.modification.attributes.port = PortNumber{1};
    return targets_.answer(question);
  }

  testing::FakeDaemon daemon_;
  testing::FakeObjects objects_;
  hca::XrcDomain& domain_ = **objects_.adapter.open_xrc_domain(kDomain);
  hca::Qp& qp_ = objects_.make_target(domain_);
  SharedTargets targets_{daemon_, objects_, 2};
};

TEST_F(TargetsOfThisProcess, AreChangedAndReadByWhoHasThemOpenOnly) {
  EXPECT_EQ(error_in(ask(uabi::TargetVerb::Query)).code, ErrorCode::PermissionDenied);
  EXPECT_EQ(error_in(ask(uabi::TargetVerb::Modify)).code, ErrorCode::PermissionDenied);
  EXPECT_EQ(qp_.query().state, hca::QpState::Reset);
  const uabi::XrcTargetAnswer opened = ask(uabi::TargetVerb::Open);
  EXPECT_EQ(opened.error, 0U);
  EXPECT_EQ(opened.peer, kPeer);
  EXPECT_EQ(opened.serial, 4U);
  EXPECT_EQ(ask(uabi::TargetVerb::Modify).error, 0U);
  EXPECT_EQ(qp_.query().state, hca::QpState::Init);
  EXPECT_EQ(ask(uabi::TargetVerb::Query).attributes.state, hca::QpState::Init);
}

TEST_F(TargetsOfThisProcess, HaveALimitOfOpeners) {
  EXPECT_EQ(ask(uabi::TargetVerb::Open, kPeer).error, 0U);
  EXPECT_EQ(ask(uabi::TargetVerb::Open, kOther).error, 0U);
  EXPECT_EQ(error_in(ask(uabi::TargetVerb::Open, {.node = 0, .slot = 7})).code,
            ErrorCode::OutOfMemory);
}

TEST_F(TargetsOfThisProcess, StayForOthersWhenTheirProgramReleasesThem) {
  EXPECT_EQ(ask(uabi::TargetVerb::Open).error, 0U);
  EXPECT_FALSE(targets_.release(qp_));
  EXPECT_EQ(targets_.orphans_of(kDomain), 1U);
  EXPECT_TRUE(targets_.remove_opener(kOther, kDomain, std::nullopt).empty());
  const auto left = targets_.remove_opener(kPeer, kDomain, qp_.number());
  ASSERT_EQ(left.size(), 1U);
  EXPECT_EQ(left[0].qp, &qp_);
  EXPECT_EQ(targets_.orphans_of(kDomain), 0U);
}

TEST_F(TargetsOfThisProcess, AreOpenedAgainByTheirProgram) {
  EXPECT_FALSE(targets_.open_again(kDomain, qp_.number()));
  EXPECT_EQ(ask(uabi::TargetVerb::Open).error, 0U);
  EXPECT_FALSE(targets_.release(qp_));
  const auto again = targets_.open_again(kDomain, qp_.number());
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, &qp_);
  EXPECT_EQ(targets_.orphans_of(kDomain), 0U);
  EXPECT_TRUE(targets_.remove_opener(kPeer, kDomain, std::nullopt).empty());
}

TEST_F(TargetsOfThisProcess, AreFoundByNobodyOnceNobodyHasThem) {
  EXPECT_TRUE(targets_.release(qp_));
  EXPECT_EQ(error_in(ask(uabi::TargetVerb::Open)).code, ErrorCode::InvalidArgument);
}

TEST_F(TargetsOfThisProcess, TellEventsToAllWhoHaveThemOpen) {
  EXPECT_EQ(ask(uabi::TargetVerb::Open, kPeer).error, 0U);
  EXPECT_EQ(ask(uabi::TargetVerb::Open, kOther).error, 0U);
  hca::AsyncEvent event;
  event.type = hca::AsyncEventType::CommunicationEstablished;
  event.qp = &qp_;
  targets_.notify_openers(event);
  const auto told = daemon_.take<uabi::XrcTargetEvent>();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0].peer, kPeer);
  EXPECT_EQ(told[1].peer, kOther);
  EXPECT_EQ(told[0].target, qp_.number());
}

TEST(SharedTargets, AreOfDomainsThatHaveAName) {
  testing::FakeDaemon daemon;
  testing::FakeObjects objects;
  SharedTargets targets{daemon, objects};
  hca::Qp& qp = objects.make_target(**objects.adapter.open_xrc_domain(0));
  targets.note(0, qp);
  EXPECT_TRUE(targets.release(qp));
  EXPECT_FALSE(targets.open_again(0, qp.number()));
}

}  // namespace
}  // namespace weft::host
