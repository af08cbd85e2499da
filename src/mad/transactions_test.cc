// Send side: T-MI-1 and T-MI-2, back-off, BUSY, redirection, limits.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "mad/management_interface.h"
#include "mad/testing/network.h"
#include "wire/mad/class_port_info.h"
#include "wire/mad/sa_mad.h"

namespace weft::mad {
namespace {

using ::testing::HasSubstr;
using wire::MadMethod;
using wire::ManagementClass;

constexpr Lid kHere{1};
constexpr Lid kThere{2};
constexpr TransactionOptions kOptions{.timeout = Duration::milliseconds(10), .retries = 3};

class Transactions : public ::testing::Test {
 protected:
  Transactions() {
    network.attach(kHere, here);
    network.attach(kThere, there);
    agent = *here.register_agent(registration_of(ManagementClass::SubnAdm, {}), nullptr);
  }

  Result<TransactionId> ask(const TransactionOptions& options = kOptions,
                            MadMethod method = MadMethod::Get, Lid to = kThere) {
    return here.send(agent, {.lid = to}, request_of(ManagementClass::SubnAdm, method), options,
                     listener.handler(), network.now);
  }
  void serve(TestAgent& server) {
    ASSERT_TRUE(there.register_agent(
        registration_of(ManagementClass::SubnAdm, {MadMethod::Get, MadMethod::Set}), &server));
  }

  Listener listener;  // hears of what the interfaces cancel when they end
  TestNetwork network;
  ManagementInterface here{
      InterfaceKind::Gsi, {.transactions = 8, .in_flight = 2}
  };
  ManagementInterface there{InterfaceKind::Gsi};
  AgentId agent;
};

TEST_F(Transactions, ReportATimeout) {  // T-MI-1, R-MI-2
  ASSERT_TRUE(ask(kOptions, MadMethod::Get, Lid{99}));
  network.run();
  ASSERT_EQ(listener.reported.size(), 1U);
  EXPECT_EQ(listener.reported[0].status, TransactionStatus::TimedOut);
  EXPECT_EQ(listener.reported[0].sends, 4U);
  ASSERT_EQ(network.sent.size(), 4U);  // as a capture would show
  std::vector<std::int64_t> gaps;
  for (std::size_t i = 1; i < network.sent.size(); ++i) {
    gaps.push_back((network.sent[i].at - network.sent[i - 1].at).milliseconds());
    EXPECT_EQ(network.sent[i].bytes, network.sent[0].bytes);
  }
  EXPECT_THAT(gaps, ::testing::ElementsAre(10, 20, 40));
  EXPECT_EQ(network.now - network.sent.back().at, Duration::milliseconds(80));
  EXPECT_EQ(here.counters().resent, 3U);
  EXPECT_EQ(here.counters().timed_out, 1U);
}

TEST_F(Transactions, AreCancelledOnceAndHearNothingLater) {  // T-MI-2
  TestAgent server{[](MadRequest& request) { return &request.message; }};
  serve(server);
  const auto transaction = ask();
  (void)here.poll_transmit(network.now);
  ASSERT_TRUE(here.cancel(*transaction, network.now));
  EXPECT_FALSE(here.cancel(*transaction, network.now));
  network.run();
  MadMessage late = request_of(ManagementClass::SubnAdm, MadMethod::GetResp);
  wire::MadHeader header = late.header();
  header.transaction_id = std::uint64_t{agent.value()} << 32 | 1;
  late.set_header(header);
  here.handle_mad({.lid = kThere}, late.mad, network.now);
  ASSERT_EQ(listener.reported.size(), 1U);
  EXPECT_EQ(listener.reported[0].status, TransactionStatus::Cancelled);
  EXPECT_EQ(here.counters().unmatched_answers, 1U);
}

TEST_F(Transactions, AreAllCancelledWhenTheInterfaceGoes) {  // T-MI-2, R-MI-2
  auto gone = std::make_unique<ManagementInterface>(InterfaceKind::Gsi, Limits{.in_flight = 2});
  const auto id = gone->register_agent(registration_of(ManagementClass::SubnAdm, {}), nullptr);
  int refused = 0;
  for (int i = 0; i < 3; ++i) {
    const auto listen = listener.handler();
    ASSERT_TRUE(gone->send(
        *id, {.lid = kThere}, request_of(ManagementClass::SubnAdm, MadMethod::Get), kOptions,
        [&, listen](const Completion& completion) {
          listen(completion);
          // A transaction started now would never complete.
          refused +=
              gone->send(*id, {.lid = kThere}, request_of(ManagementClass::SubnAdm, MadMethod::Get),
                         kOptions, nullptr, network.now)
                  ? 0
                  : 1;
        },
        network.now));
  }
  ManagementInterface* const raw = gone.get();
  gone->check_invariants();
  raw->~ManagementInterface();
  ::operator delete(static_cast<void*>(gone.release()));
  ASSERT_EQ(listener.reported.size(), 3U);
  EXPECT_TRUE(std::ranges::all_of(listener.reported, [](const Reported& reported) {
    return reported.status == TransactionStatus::Cancelled;
  }));
  EXPECT_EQ(refused, 3);
}

TEST_F(Transactions, OfAnAgentEndWithIt) {
  ASSERT_TRUE(ask());
  ASSERT_TRUE(ask());
  ASSERT_TRUE(ask());  // waits
  ASSERT_TRUE(here.unregister_agent(agent, network.now));
  EXPECT_EQ(listener.reported.size(), 3U);
  EXPECT_EQ(here.transactions(), 0U);
  EXPECT_EQ(here.in_flight(), 0U);
  here.check_invariants();
}

TEST_F(Transactions, HandAFailedStatusToTheirUserAsItIs) {  // R-MI-4
  constexpr auto kNoRecords = static_cast<std::uint16_t>(wire::SaStatus::NoRecords);
  TestAgent server{[](MadRequest& request) {
    request.message.set_status(kNoRecords);
    return &request.message;
  }};
  serve(server);
  ASSERT_TRUE(ask());
  network.run();
  ASSERT_EQ(listener.reported.size(), 1U);
  EXPECT_EQ(listener.reported[0].status, TransactionStatus::Answered);
  EXPECT_EQ(listener.reported[0].answer.status(), kNoRecords);
}

TEST_F(Transactions, TakeNoAnswerFromAnotherOrOfAnotherClass) {
  ASSERT_TRUE(ask());
  const MadPacket request = *here.poll_transmit(network.now);
  MadMessage answer{.mad = request.bytes};
  convert_to_response(answer);
  here.handle_mad({.lid = Lid{3}}, answer.mad, network.now);
  here.handle_mad({.lid = kThere, .global = GlobalRoute{.dgid = Gid{kDefaultGidPrefix, Guid{9}}}},
                  answer.mad, network.now);
  MadMessage other = answer;
  wire::MadHeader header = other.header();
  header.mgmt_class = ManagementClass::Perf;
  other.set_header(header);
  here.handle_mad({.lid = kThere}, other.mad, network.now);
  header = answer.header();
  ++header.transaction_id;
  other.set_header(header);
  here.handle_mad({.lid = kThere}, other.mad, network.now);
  EXPECT_TRUE(listener.reported.empty());
  EXPECT_EQ(here.counters().unmatched_answers, 4U);
  here.handle_mad({.lid = kThere}, answer.mad, network.now);
  EXPECT_EQ(listener.reported.size(), 1U);
}

TEST_F(Transactions, OfADirectedRouteAreAnsweredFromAnywhere) {
  ManagementInterface smi{InterfaceKind::Smi};
  const auto id =
      smi.register_agent(registration_of(ManagementClass::SubnDirectedRoute, {}), nullptr);
  ASSERT_TRUE(smi.send(*id, {.lid = kPermissiveLid, .qp = kQp0},
                       request_of(ManagementClass::SubnDirectedRoute, MadMethod::Get), kOptions,
                       listener.handler(), network.now));
  MadMessage answer{.mad = smi.poll_transmit(network.now)->bytes};
  convert_to_response(answer);
  smi.handle_mad({.lid = Lid{17}, .qp = kQp0}, answer.mad, network.now);
  ASSERT_EQ(listener.reported.size(), 1U);
  EXPECT_EQ(listener.reported[0].answer.status(), 0);
}

TEST_F(Transactions, HaveTheAgentInTheirIdAndNoneTwice) {  // R-MI-2
  ASSERT_TRUE(ask());
  ASSERT_TRUE(ask());
  const auto tid_of = [](const MadPacket& packet) {
    return MadMessage{.mad = packet.bytes}.header().transaction_id;
  };
  const auto first = tid_of(*here.poll_transmit(network.now));
  const auto second = tid_of(*here.poll_transmit(network.now));
  EXPECT_EQ(first >> 32, agent.value());
  EXPECT_NE(first, second);
  TransactionOptions chosen = kOptions;
  chosen.tid_low = static_cast<std::uint32_t>(second);
  const auto refused = ask(chosen);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::Busy);
}

TEST(PostedMessages, KeepTheirIdsForAnAgentThatWantsIt) {
  ManagementInterface interface{InterfaceKind::Gsi};
  for (const bool keeps : {false, true}) {
    Registration registration = registration_of(ManagementClass::ComMgt, {});
    registration.keeps_transaction_ids = keeps;
    const auto agent = interface.register_agent(registration, nullptr);
    ASSERT_TRUE(agent.has_value());
    MadMessage message = request_of(ManagementClass::ComMgt, wire::MadMethod::Send);
    wire::MadHeader header = message.header();
    header.transaction_id = 0x1234'0000'5678;
    message.set_header(header);
    ASSERT_TRUE(interface.post(*agent, {.lid = Lid{2}}, message, Instant{}).has_value());
    const auto packet = interface.poll_transmit(Instant{});
    ASSERT_TRUE(packet.has_value());
    const std::uint64_t sent = MadMessage{.mad = packet->bytes}.header().transaction_id;
    EXPECT_EQ(sent, keeps ? header.transaction_id : std::uint64_t{agent->value()} << 32 | 0x5678U);
  }
}

TEST_F(Transactions, ChooseAnIdThatNoneHas) {
  TransactionOptions chosen = kOptions;
  chosen.tid_low = 1;  // the interface's own first choice
  ASSERT_TRUE(ask(chosen));
  EXPECT_TRUE(ask());
  EXPECT_TRUE(ask());
  EXPECT_EQ(here.transactions(), 3U);
}

TEST_F(Transactions, WaitAndAskAgainWhenTheOtherIsBusy) {  // IBTA vol 1 §13.4.7
  int times = 0;
  TestAgent server{[&](MadRequest& request) {
    request.message.set_status(++times < 3 ? wire::kMadStatusBusy : 0);
    return &request.message;
  }};
  serve(server);
  ASSERT_TRUE(ask());
  network.run();
  ASSERT_EQ(listener.reported.size(), 1U);
  EXPECT_EQ(listener.reported[0].answer.status(), 0);
  EXPECT_EQ(listener.reported[0].sends, 3U);
  EXPECT_EQ(here.counters().busy, 2U);
  EXPECT_GE(network.now - Instant{}, Duration::milliseconds(30));  // not at once
}

TEST_F(Transactions, HandBusyOverWhenRetriesAreSpent) {
  TestAgent server{[](MadRequest& request) {
    request.message.set_status(wire::kMadStatusBusy);
    return &request.message;
  }};
  serve(server);
  ASSERT_TRUE(ask());
  network.run();
  ASSERT_EQ(listener.reported.size(), 1U);
  EXPECT_EQ(listener.reported[0].status, TransactionStatus::Answered);
  EXPECT_EQ(listener.reported[0].answer.status(), wire::kMadStatusBusy);
  EXPECT_EQ(server.requests, 4);
}

TEST_F(Transactions, FollowARedirection) {  // IBTA vol 1 §13.4.7
  static constexpr Lid kElsewhere{3};
  ManagementInterface elsewhere{InterfaceKind::Gsi};
  network.attach(kElsewhere, elsewhere);
  TestAgent redirector{[](MadRequest& request) {
    request.message.set_status(wire::kMadStatusRedirect);
    const auto info = wire::pack(wire::ClassPortInfo{.redirect_lid = kElsewhere,
                                                     .redirect_pkey = kDefaultPKey,
                                                     .redirect_qp = Qpn{7},
                                                     .redirect_qkey = kGsiQKey});
    std::ranges::copy(info, request.message.mad.begin() + 56);
    return &request.message;
  }};
  serve(redirector);
  TestAgent server{[](MadRequest& request) { return &request.message; }};
  ASSERT_TRUE(elsewhere.register_agent(registration_of(ManagementClass::SubnAdm, {MadMethod::Get}),
                                       &server));
  ASSERT_TRUE(ask());
  network.run();
  ASSERT_EQ(listener.reported.size(), 1U);
  EXPECT_EQ(listener.reported[0].answer.status(), 0);
  EXPECT_EQ(server.requests, 1);
  EXPECT_EQ(here.counters().redirected, 1U);

  TransactionOptions stays = kOptions;
  stays.follows_redirects = false;
  ASSERT_TRUE(ask(stays));
  network.run();
  EXPECT_EQ(listener.reported[1].answer.status(), wire::kMadStatusRedirect);
}

TEST_F(Transactions, DoNotFollowRedirectionsRoundAndRound) {
  TestAgent redirector{[](MadRequest& request) {
    request.message.set_status(wire::kMadStatusRedirect);
    const auto info = wire::pack(wire::ClassPortInfo{.redirect_lid = kThere});
    std::ranges::copy(info, request.message.mad.begin() + 56);
    return &request.message;
  }};
  serve(redirector);
  ASSERT_TRUE(ask());
  network.run();
  ASSERT_EQ(listener.reported.size(), 1U);
  EXPECT_EQ(listener.reported[0].status, TransactionStatus::Answered);
  EXPECT_EQ(redirector.requests, 1 + static_cast<int>(here.limits().redirects));
}

TEST_F(Transactions, AreInFlightAsManyAsTheLimitSaysAndTheOthersWait) {
  TestAgent server{[](MadRequest& request) { return &request.message; }};
  serve(server);
  for (int i = 0; i < 8; ++i) {
    ASSERT_TRUE(ask());
  }
  EXPECT_EQ(here.in_flight(), 2U);
  const auto refused = ask();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::OutOfMemory);
  EXPECT_THAT(refused.error().reason, HasSubstr("8 transactions"));
  here.check_invariants();
  network.run();
  EXPECT_EQ(listener.reported.size(), 8U);
  EXPECT_EQ(server.requests, 8);
  EXPECT_EQ(here.in_flight(), 0U);
}

TEST_F(Transactions, ThatWaitCanBeCancelled) {
  (void)ask();
  (void)ask();
  const auto waiting = ask();
  ASSERT_TRUE(here.cancel(*waiting, network.now));
  here.check_invariants();
  EXPECT_EQ(listener.reported.size(), 1U);
  EXPECT_EQ(listener.reported[0].sends, 0U);
  network.run();
  EXPECT_EQ(listener.reported.size(), 3U);
}

TEST_F(Transactions, CanBeGivenMoreTime) {  // what a CM does that was told to wait
  const auto transaction =
      ask({.timeout = Duration::milliseconds(10), .retries = 0}, MadMethod::Get, Lid{99});
  ASSERT_TRUE(here.set_timeout(*transaction, Duration::milliseconds(50), network.now));
  network.run();
  EXPECT_EQ(network.now - Instant{}, Duration::milliseconds(50));
  EXPECT_FALSE(here.set_timeout(*transaction, Duration::milliseconds(50), network.now));
}

TEST_F(Transactions, MayBeginAndEndInsideTheHandlerOfAnother) {
  TestAgent server{[](MadRequest& request) { return &request.message; }};
  serve(server);
  const auto other = ask();
  int ended = 0;
  ASSERT_TRUE(here.send(
      agent, {.lid = kThere}, request_of(ManagementClass::SubnAdm, MadMethod::Get), kOptions,
      [&](const Completion&) {
        ++ended;
        (void)here.cancel(*other, network.now);
        (void)ask();
      },
      network.now));
  network.run();
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(listener.reported.size(), 2U);
}

TEST_F(Transactions, AreRefusedWhenNothingCouldEndThem) {
  const auto refused = [&](MadMessage message, TransactionOptions options) {
    return !here.send(agent, {.lid = kThere}, std::move(message), options, nullptr, network.now);
  };
  EXPECT_TRUE(refused(request_of(ManagementClass::SubnAdm, MadMethod::GetResp), kOptions));
  EXPECT_TRUE(refused(request_of(ManagementClass::Perf, MadMethod::Get), kOptions));
  EXPECT_TRUE(
      refused(request_of(ManagementClass::SubnAdm, MadMethod::Get), {.expects_answer = false}));
  EXPECT_TRUE(
      refused(request_of(ManagementClass::SubnAdm, MadMethod::Get), {.timeout = Duration{}}));
  EXPECT_FALSE(here.send(AgentId{77}, {.lid = kThere},
                         request_of(ManagementClass::SubnAdm, MadMethod::Get), kOptions, nullptr,
                         network.now));
  EXPECT_EQ(here.transactions(), 0U);
}

TEST_F(Transactions, GoToTheSubnetManagerUnlessToldOtherwise) {  // R-MI-2
  here.set_subnet_manager(Lid{42}, ServiceLevel{3});
  ASSERT_TRUE(here.send(agent, here.subnet_manager(),
                        request_of(ManagementClass::SubnAdm, MadMethod::Get), kOptions, nullptr,
                        network.now));
  const MadPacket packet = *here.poll_transmit(network.now);
  EXPECT_EQ(packet.address.lid, Lid{42});
  EXPECT_EQ(packet.address.sl, ServiceLevel{3});
  EXPECT_EQ(packet.address.qp, kQp1);
  EXPECT_EQ(packet.address.qkey, kGsiQKey);
}

TEST(TransactionSoak, EndsEachOnceWhateverTheNetworkDoes) {  // T-MI-1, many seeds
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    TestNetwork network{
        seed,
        {.loss = static_cast<unsigned>(seed % 60),
          .duplication = static_cast<unsigned>(seed % 30),
          .delay_min = Duration::microseconds(1),
          .delay_max = Duration::milliseconds(15)}
    };
    network.keeps_log = false;
    ManagementInterface here{InterfaceKind::Gsi, {.in_flight = 4}};
    ManagementInterface there{InterfaceKind::Gsi};
    network.attach(kHere, here);
    network.attach(kThere, there);
    Random random{seed};
    TestAgent server{[&](MadRequest& request) -> const MadMessage* {
      return random.chance(1, 10) ? nullptr : &request.message;
    }};
    ASSERT_TRUE(
        there.register_agent(registration_of(ManagementClass::Perf, {MadMethod::Get}), &server));
    const auto agent = here.register_agent(registration_of(ManagementClass::Perf, {}), nullptr);
    std::map<TransactionId, int> ends;
    std::map<TransactionId, std::uint16_t> asked;
    for (std::uint16_t i = 0; i < 40; ++i) {
      const auto id = here.send(
          *agent, {.lid = kThere}, request_of(ManagementClass::Perf, MadMethod::Get, i), kOptions,
          [&](const Completion& completion) {
            ++ends[completion.transaction];
            if (completion.answer != nullptr) {
              EXPECT_EQ(completion.answer->header().attribute_id, asked[completion.transaction]);
            }
          },
          network.now);
      ASSERT_TRUE(id);
      asked[*id] = i;
    }
    network.run();
    ASSERT_EQ(ends.size(), 40U) << "seed " << seed;
    for (const auto& [id, times] : ends) {
      ASSERT_EQ(times, 1) << "seed " << seed;
    }
  }
}

}  // namespace
}  // namespace weft::mad
