// Service id resolution (R-CM-2, R-CM-10; T-CM-9).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cm/testing/network.h"

namespace weft::cm {
namespace {

using ::testing::ElementsAre;
using wire::CmAttribute;
using wire::SidrStatus;

SidrRequestParameters request_of(TestCmNetwork& net) {
  return {.path = TestCmNetwork::path(net.a(), net.b()),
          .service_id = 0x1000,
          .timeout = Duration::milliseconds(50),
          .max_cm_retries = 3};
}

const SidrRepReceived* answer_of(TestHost& host) {
  const Reported* const reported = host.last(CmEventType::SidrRepReceived);
  return reported == nullptr ? nullptr : &std::get<SidrRepReceived>(reported->event.details);
}

TEST(Sidr, ResolvesToAQpWithEveryStatus) {  // T-CM-9
  for (unsigned status = 0; status <= 5; ++status) {
    TestCmNetwork net;
    (void)net.b().listener(0x1000);
    const CmId id = net.a().make();
    ASSERT_TRUE(net.a().cm.send_sidr_req(id, request_of(net), net.now).has_value());
    EXPECT_EQ(net.a().state(id), State::SidrReqSent);
    net.run_shortly();
    EXPECT_EQ(net.b().state(net.b().newest), State::SidrReqRcvd);
    const auto& reported = std::get<SidrReqReceived>(net.b().reported.at(0).event.details);
    EXPECT_EQ(reported.slid, net.a().lid);
    EXPECT_EQ(reported.pkey, kDefaultPKey);
    EXPECT_EQ(net.b().reported[0].event.private_data.size(), kSidrReqPrivateData);
    const std::array information = {std::byte{1}, std::byte{2}, std::byte{3}};
    const SidrReplyParameters reply{
        .status = static_cast<SidrStatus>(status),
        .qpn = Qpn{0x4242},
        .qkey = QKey{0x0123'4567},
        .ece = {.vendor_id = 0xA1B2C3, .options = 9},
        .additional_information = information
    };
    ASSERT_TRUE(net.b().cm.send_sidr_rep(net.b().newest, reply, net.now).has_value());
    EXPECT_EQ(net.b().state(net.b().newest), State::Idle);
    net.run_shortly();
    const SidrRepReceived* const answer = answer_of(net.a());
    ASSERT_NE(answer, nullptr);
    EXPECT_EQ(answer->status, reply.status);
    EXPECT_EQ(answer->qpn, reply.qpn);
    EXPECT_EQ(answer->qkey, reply.qkey);
    EXPECT_EQ(answer->ece, reply.ece);
    EXPECT_TRUE(std::ranges::equal(answer->additional_information, information));
    EXPECT_EQ(net.a().state(id), State::Idle);
  }
}

TEST(Sidr, IsUnsupportedWhereNobodyListens) {  // R-CML-4
  TestCmNetwork net;
  const CmId id = net.a().make();
  ASSERT_TRUE(net.a().cm.send_sidr_req(id, request_of(net), net.now).has_value());
  net.run_shortly();
  ASSERT_NE(answer_of(net.a()), nullptr);
  EXPECT_EQ(answer_of(net.a())->status, SidrStatus::Unsupported);
}

TEST(Sidr, IsRejectedByWhoDestroysItsId) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  net.b().on_event = [](CmId, const CmEvent&, Instant) { return Handled::Destroy; };
  const CmId id = net.a().make();
  ASSERT_TRUE(net.a().cm.send_sidr_req(id, request_of(net), net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(answer_of(net.a())->status, SidrStatus::Rejected);
}

TEST(Sidr, IsAskedAgainAndGivenUp) {
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  const CmId id = net.a().make();
  const Instant begin = net.now;
  ASSERT_TRUE(net.a().cm.send_sidr_req(id, request_of(net), net.now).has_value());
  net.run();
  EXPECT_EQ(net.count(CmAttribute::SidrReq), 4U);
  EXPECT_EQ(net.b().count(CmEventType::SidrReqReceived), 1U);  // the rest are duplicates
  EXPECT_THAT(net.a().reported_for(id), ElementsAre(CmEventType::SidrReqTimeout));
  EXPECT_EQ(net.a().reported[0].at - begin, Duration::milliseconds(200));
}

TEST(Sidr, TellsRequestersOfTheSameIdApartByTheirGids) {  // R-CM-10
  TestCmNetwork net;
  (void)net.b().listener(0x1000);
  const auto mad =
      make_mad(CmAttribute::SidrReq, 1, wire::SidrReq{.request_id = 5, .service_id = 0x1000});
  const auto from = [](std::uint64_t interface_id) {
    return mad::MadAddress{.global =
                               mad::GlobalRoute{.dgid = {kDefaultGidPrefix, Guid{interface_id}}}};
  };
  net.b().gsi.handle_mad(from(1), mad, net.now);
  net.b().gsi.handle_mad(from(2), mad, net.now);
  net.b().gsi.handle_mad(from(2), mad, net.now);
  EXPECT_EQ(net.b().count(CmEventType::SidrReqReceived), 2U);
  EXPECT_EQ(net.b().cm.counters().of(CmAttribute::SidrReq).duplicates, 1U);
}

TEST(Sidr, RequestForAListenerThatIsExpectedWaitsForIt) {
  constexpr Duration kGrace = Duration::milliseconds(40);  // less than the request's timeout
  TestCmNetwork net{1, {}, {.listener_grace = kGrace}};
  net.b().cm.expect_listener(0x1000, net.now);
  const CmId id = net.a().make();
  ASSERT_TRUE(net.a().cm.send_sidr_req(id, request_of(net), net.now).has_value());
  net.run_shortly();
  EXPECT_EQ(answer_of(net.a()), nullptr) << "SIDR_REP before the listener had its time";
  (void)net.b().listener(0x1000);
  net.run_shortly();
  ASSERT_NE(net.b().last(CmEventType::SidrReqReceived), nullptr);
  EXPECT_EQ(net.b().state(net.b().newest), State::SidrReqRcvd);
}

TEST(Sidr, RequestForAListenerThatDoesNotComeIsRefusedThen) {
  TestCmNetwork net{1, {}, {.listener_grace = Duration::milliseconds(40)}};
  net.b().cm.expect_listener(0x1000, net.now);
  const CmId id = net.a().make();
  ASSERT_TRUE(net.a().cm.send_sidr_req(id, request_of(net), net.now).has_value());
  net.run_for(Duration::milliseconds(45));
  ASSERT_NE(answer_of(net.a()), nullptr);
  EXPECT_EQ(answer_of(net.a())->status, SidrStatus::Unsupported);
}

}  // namespace
}  // namespace weft::cm
