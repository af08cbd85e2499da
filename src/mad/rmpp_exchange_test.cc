// Messages of many segments between two interfaces (IBTA vol 1 §13.6).

#include <gtest/gtest.h>

#include <algorithm>

#include "mad/management_interface.h"
#include "mad/testing/network.h"

namespace weft::mad {
namespace {

using wire::MadMethod;
using wire::ManagementClass;

constexpr Lid kHere{1};
constexpr Lid kThere{2};
constexpr TransactionOptions kOptions{.timeout = Duration::milliseconds(20), .retries = 6};

struct Pair {
  explicit Pair(const Limits& limits = {}, std::uint64_t seed = 1, const NetworkFaults& faults = {})
      : network(seed, faults), here(InterfaceKind::Gsi, limits), there(InterfaceKind::Gsi, limits) {
    network.attach(kHere, here);
    network.attach(kThere, there);
    agent = *here.register_agent(registration_of(ManagementClass::SubnAdm, {}), nullptr);
    EXPECT_TRUE(there.register_agent(
        registration_of(ManagementClass::SubnAdm,
                        {MadMethod::GetTable, MadMethod::GetMulti, MadMethod::Set}),
        &server));
  }

  /// The attribute modifier selects the table.
  Result<TransactionId> ask(std::uint32_t which, MadMethod method = MadMethod::GetTable,
                            std::size_t request_bytes = 0) {
    MadMessage request = request_of(ManagementClass::SubnAdm, method);
    wire::MadHeader header = request.header();
    header.attribute_modifier = which;
    request.set_header(header);
    request.is_rmpp = request_bytes != 0;
    request.data = pattern(request_bytes, which);
    return here.send(agent, {.lid = kThere}, request, kOptions, listener.handler(), network.now);
  }

  Listener listener;  // hears of what the interfaces cancel when they end
  TestNetwork network;
  ManagementInterface here;
  ManagementInterface there;
  AgentId agent{};
  std::size_t table_bytes{2'000};
  std::vector<MadMessage> requests{};
  MadMessage answer{};
  TestAgent server{[this](MadRequest& request) {
    requests.push_back(request.message);
    answer = request.message;
    answer.is_rmpp = true;
    answer.data = pattern(table_bytes, request.message.header().attribute_modifier);
    return &answer;
  }};
};

TEST(RmppExchange, AnswersASingleMadWithATableOfAnySize) {
  for (const std::size_t bytes : {0U, 1U, 199U, 200U, 201U, 400U, 13'000U, 200'000U}) {
    Pair pair;
    pair.table_bytes = bytes;
    ASSERT_TRUE(pair.ask(3));
    pair.network.run();
    ASSERT_EQ(pair.listener.reported.size(), 1U);
    const Reported& reported = pair.listener.reported[0];
    EXPECT_EQ(reported.status, TransactionStatus::Answered) << bytes;
    EXPECT_EQ(reported.answer.header().method, MadMethod::GetTableResp);
    EXPECT_EQ(reported.answer.data, pattern(bytes, 3));
    EXPECT_EQ(pair.there.counters().resent, 0U);
  }
}

TEST(RmppExchange, CarriesARequestAndItsAnswerBothInSegments) {
  Pair pair;
  ASSERT_TRUE(pair.ask(4, MadMethod::GetMulti, 1'500));
  pair.network.run();
  ASSERT_EQ(pair.requests.size(), 1U);
  EXPECT_EQ(pair.requests[0].data, pattern(1'500, 4));
  ASSERT_EQ(pair.listener.reported.size(), 1U);
  EXPECT_EQ(pair.listener.reported[0].answer.data, pattern(2'000, 4));
  EXPECT_EQ(pair.listener.reported[0].answer.header().method, MadMethod::GetMultiResp);
}

TEST(RmppExchange, EndsWithTheLastAckWhenNoAnswerIsExpected) {
  Pair pair;
  MadMessage message = request_of(ManagementClass::SubnAdm, MadMethod::Set);
  message.is_rmpp = true;
  message.data = pattern(900);
  TransactionOptions options = kOptions;
  options.expects_answer = false;
  Listener listener;
  ASSERT_TRUE(
      pair.here.send(pair.agent, {.lid = kThere}, message, options, listener.handler(), {}));
  pair.network.run(Instant{Duration::milliseconds(1)});
  ASSERT_EQ(listener.reported.size(), 1U);
  EXPECT_EQ(listener.reported[0].status, TransactionStatus::Sent);
  ASSERT_EQ(pair.requests.size(), 1U);
  EXPECT_EQ(pair.requests[0].data, pattern(900));
}

TEST(RmppExchange, TimesOutWhenTheOtherFallsSilentInTheMiddle) {
  Pair pair{{.rmpp_total_time = Duration::seconds(1)}};
  pair.table_bytes = 50'000;
  ASSERT_TRUE(pair.ask(1));
  pair.network.run(Instant{Duration::microseconds(45)});
  ManagementInterface nobody{InterfaceKind::Gsi};
  pair.network.attach(kThere, nobody);
  pair.network.run();
  ASSERT_EQ(pair.listener.reported.size(), 1U);
  EXPECT_EQ(pair.listener.reported[0].status, TransactionStatus::RmppFailed);
  EXPECT_EQ(pair.listener.reported[0].rmpp_status, wire::RmppStatus::TotalTimeTooLong);
  pair.here.check_invariants();
}

TEST(RmppExchange, OfARequestThatIsNeverAcknowledgedTimesOut) {
  Pair pair;
  ManagementInterface nobody{InterfaceKind::Gsi};
  pair.network.attach(kThere, nobody);
  Registration other = registration_of(ManagementClass::SubnAdm, {});
  ASSERT_TRUE(nobody.register_agent(other, nullptr));
  ASSERT_TRUE(pair.here.send(pair.agent, {.lid = Lid{77}},
                             [] {
                               MadMessage message =
                                   request_of(ManagementClass::SubnAdm, MadMethod::GetMulti);
                               message.is_rmpp = true;
                               message.data = pattern(700);
                               return message;
                             }(),
                             kOptions, pair.listener.handler(), {}));
  pair.network.run();
  ASSERT_EQ(pair.listener.reported.size(), 1U);
  EXPECT_EQ(pair.listener.reported[0].status, TransactionStatus::TimedOut);
  EXPECT_EQ(pair.listener.reported[0].rmpp_status, wire::RmppStatus::TooManyRetries);
}

TEST(RmppExchange, IsStoppedWhenThereIsNoRoom) {
  Pair pair;
  ManagementInterface small{InterfaceKind::Gsi, {.rmpp_message_bytes = 1'000}};
  pair.network.attach(kHere, small);
  const auto agent = small.register_agent(registration_of(ManagementClass::SubnAdm, {}), nullptr);
  ASSERT_TRUE(small.send(*agent, {.lid = kThere},
                         request_of(ManagementClass::SubnAdm, MadMethod::GetTable), kOptions,
                         pair.listener.handler(), {}));
  pair.network.run();
  ASSERT_EQ(pair.listener.reported.size(), 1U);
  EXPECT_EQ(pair.listener.reported[0].status, TransactionStatus::RmppFailed);
  EXPECT_EQ(pair.listener.reported[0].rmpp_status, wire::RmppStatus::ResourcesExhausted);
  EXPECT_EQ(small.counters().rmpp_refused, 1U);
  EXPECT_EQ(pair.there.counters().rmpp_ended_by_peer, 1U);
  pair.there.check_invariants();
}

/// The answers to the first segments of four senders.
std::vector<wire::RmppType> answers_to_four(const Limits& limits) {
  Pair pair{limits};
  MadMessage request = request_of(ManagementClass::SubnAdm, MadMethod::GetMulti);
  for (std::uint64_t tid = 1; tid <= 4; ++tid) {
    wire::MadHeader header = request.header();
    header.transaction_id = tid;
    request.set_header(header);
    set_rmpp(request.mad, {.version = 1,
                           .type = wire::RmppType::Data,
                           .is_first = true,
                           .is_active = true,
                           .data1 = 1});
    pair.there.handle_mad({.lid = kHere}, request.mad, {});
    pair.there.check_invariants();
  }
  std::vector<wire::RmppType> answers;
  while (const auto packet = pair.there.poll_transmit({})) {
    answers.push_back(rmpp_of(packet->bytes).type);
  }
  return answers;
}

TEST(RmppExchange, TakesNoMoreThanItsLimitOfMemoryOrOfExchanges) {
  using enum wire::RmppType;
  const std::vector<wire::RmppType> expected = {Ack, Ack, Stop, Stop};
  EXPECT_EQ(answers_to_four({.rmpp_total_bytes = 600}), expected);
  EXPECT_EQ(answers_to_four({.served_exchanges = 2}), expected);
}

TEST(RmppExchange, TellsTheOtherSideWhenItIsCancelled) {
  Pair pair;
  pair.table_bytes = 20'000;
  const auto id = pair.ask(1);
  pair.network.run(Instant{Duration::microseconds(45)});
  ASSERT_TRUE(pair.here.cancel(*id, pair.network.now));
  pair.network.run();
  EXPECT_EQ(pair.listener.reported.size(), 1U);
  EXPECT_EQ(pair.listener.reported[0].status, TransactionStatus::Cancelled);
  EXPECT_EQ(pair.there.counters().rmpp_ended_by_peer, 1U);
  EXPECT_EQ(pair.there.counters().resent, 0U);
}

TEST(RmppExchange, RepliesToNoSegmentThatNobodyAskedFor) {
  Pair pair;
  MadMessage stray = request_of(ManagementClass::SubnAdm, MadMethod::GetTableResp);
  for (const auto type : {wire::RmppType::Data, wire::RmppType::Ack, wire::RmppType::Stop,
                          wire::RmppType::Abort, static_cast<wire::RmppType>(9)}) {
    set_rmpp(stray.mad,
             {.version = 1, .type = type, .is_first = true, .is_active = true, .data1 = 1});
    pair.here.handle_mad({.lid = kThere}, stray.mad, {});
  }
  EXPECT_FALSE(pair.here.poll_transmit({}));
  EXPECT_EQ(pair.here.counters().unmatched_answers, 5U);
}

TEST(RmppExchange, AcksNeedNoAnswersWhenTheTransactionIsOver) {
  Pair pair;
  ASSERT_TRUE(pair.ask(1));
  pair.network.run();
  const MadBytes last = std::ranges::find_if(pair.network.sent, [](const auto& sent) {
                          return rmpp_of(sent.bytes).is_last;
                        })->bytes;
  // Within its time of lingering the last segment is acknowledged again, later it is not.
  Pair fresh;
  ASSERT_TRUE(fresh.ask(1));
  fresh.network.run(Instant{Duration::milliseconds(5)});
  ASSERT_EQ(fresh.listener.reported.size(), 1U);
  fresh.here.handle_mad({.lid = kThere}, last, fresh.network.now);
  const auto again = fresh.here.poll_transmit(fresh.network.now);
  ASSERT_TRUE(again);
  EXPECT_EQ(rmpp_of(again->bytes).type, wire::RmppType::Ack);
  EXPECT_EQ(rmpp_of(again->bytes).data1, 10U);
  pair.here.handle_mad({.lid = kThere}, last, pair.network.now);
  EXPECT_FALSE(pair.here.poll_transmit(pair.network.now));
}

TEST(RmppExchange, LetsWhatLingersMakeRoom) {
  Pair pair{
      {.transactions = 2, .served_exchanges = 2}
  };
  for (std::uint32_t i = 1; i <= 5; ++i) {
    ASSERT_TRUE(pair.ask(i, MadMethod::GetMulti, 500));
    pair.network.run(Instant{Duration::milliseconds(1) * i});
  }
  ASSERT_EQ(pair.listener.reported.size(), 5U);
  for (const Reported& reported : pair.listener.reported) {
    EXPECT_EQ(reported.status, TransactionStatus::Answered);
  }
}

TEST(RmppSoak, DeliversWholeMessagesOrSaysThatItDidNot) {  // many seeds
  unsigned answered = 0;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    Pair pair{
        {.in_flight = 3, .rmpp_window = 1 + static_cast<std::uint32_t>(seed % 16)},
        seed,
        {.loss = static_cast<unsigned>(seed % 25),
         .duplication = static_cast<unsigned>(seed % 20),
         .delay_min = Duration::microseconds(1),
         .delay_max = Duration::milliseconds(seed % 3 == 0 ? 12 : 2)}
    };
    pair.network.keeps_log = false;
    pair.table_bytes = seed * 37 % 6'000;
    std::map<TransactionId, std::uint32_t> which;
    for (std::uint32_t i = 1; i <= 6; ++i) {
      const bool is_two_sided = i % 2 == 0;
      const auto id = pair.ask(i, is_two_sided ? MadMethod::GetMulti : MadMethod::GetTable,
                               is_two_sided ? 100 * i : 0);
      ASSERT_TRUE(id);
      which[*id] = i;
    }
    pair.network.run();
    ASSERT_EQ(pair.listener.reported.size(), 6U) << "seed " << seed;
    for (const Reported& reported : pair.listener.reported) {
      ASSERT_EQ(which.count(reported.transaction), 1U) << "seed " << seed;
      if (reported.status == TransactionStatus::Answered) {
        ++answered;
        ASSERT_EQ(reported.answer.data, pattern(pair.table_bytes, which[reported.transaction]))
            << "seed " << seed;
      }
      which.erase(reported.transaction);
    }
    for (const MadMessage& request : pair.requests) {
      if (request.is_rmpp) {
        ASSERT_EQ(request.data, pattern(request.data.size(), request.header().attribute_modifier))
            << "seed " << seed;
      }
    }
    EXPECT_EQ(pair.here.deadline(), Instant::never());
    EXPECT_EQ(pair.there.deadline(), Instant::never());
  }
  EXPECT_GT(answered, 800U);  // of 900: the network is bad, not hopeless
}

}  // namespace
}  // namespace weft::mad
