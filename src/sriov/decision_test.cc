#include "sriov/decision.h"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace weft::sriov {
namespace {

TEST(SriovDecision, EachReasonHasATextOfItsOwn) {
  std::set<std::string_view> texts;
  for (std::size_t i = 0; i < kReasons; ++i) {
    const auto reason = static_cast<Reason>(i);
    EXPECT_FALSE(name_of(action_of(reason)).empty());
    texts.insert(text_of(reason));
  }
  EXPECT_EQ(texts.size(), kReasons);
}

TEST(SriovDecision, SaysWhyAMadWasDropped) {
  Decision decision{.function = FunctionId{3}, .is_outbound = true};
  decision.reason = Reason::ClassNotAllowed;
  decision.before = {.mgmt_class = wire::ManagementClass::Perf,
                     .method = wire::MadMethod::Get,
                     .transaction_id = 1,
                     .attribute_id = 0x7777};
  EXPECT_EQ(to_string(decision),
            "from VF 3: Perf Get attribute 0x7777 dropped: the class is not allowed to virtual "
            "functions");
  decision.is_outbound = false;
  decision.function = kPhysicalFunction;
  decision.reason = Reason::UnknownTransactionId;
  EXPECT_EQ(to_string(decision),
            "to PF: Perf Get attribute 0x7777 dropped: no function has a request with this ID");
}

TEST(SriovDecision, IsCountedForItsFunction) {
  DecisionCounters counters;
  counters.count(FunctionId{3}, Reason::RateExceeded);
  counters.count(FunctionId{3}, Reason::RateExceeded);
  counters.count(FunctionId{3}, Reason::Translated);
  EXPECT_EQ(counters.of(FunctionId{3}, Reason::RateExceeded), 2U);
  EXPECT_EQ(counters.of(FunctionId{4}, Reason::RateExceeded), 0U);
  EXPECT_EQ(counters.report(FunctionId{3}),
            "VF 3: 1 sent: translated to the port's indexes and ids\n"
            "VF 3: 2 dropped: the function's rate of MADs is exceeded\n");
  EXPECT_EQ(counters.report(FunctionId{4}), "");
  EXPECT_EQ(counters.all_of(FunctionId{
                3
  }),
            (std::vector<DecisionCounters::Count>{{.reason = Reason::Translated, .count = 1},
                                                  {.reason = Reason::RateExceeded, .count = 2}}));
  counters.count(FunctionId{3}, Reason::VirtualQp0);
  counters.count(FunctionId{3}, Reason::ClassNotAllowed);
  EXPECT_EQ(counters.of(FunctionId{3}, Action::Drop), 3U);
  EXPECT_EQ(counters.of(FunctionId{3}, Action::SendToWire), 1U);
  EXPECT_EQ(counters.of(FunctionId{3}, Action::Answer), 0U);
  counters.forget(FunctionId{3});
  EXPECT_TRUE(counters.all_of(FunctionId{3}).empty());
}

TEST(SriovDecision, TheLatestAreRemembered) {
  DecisionLog log;
  for (std::size_t i = 0; i <= DecisionLog::kEntries; ++i) {
    log.add({.function = FunctionId{static_cast<std::uint16_t>(i)}}, Instant{});
  }
  EXPECT_EQ(log.entries().size(), DecisionLog::kEntries);
  EXPECT_EQ(log.entries().front().decision.function, FunctionId{1});
}

TEST(SriovDecision, OfAFunctionThatIsGoneIsForgotten) {
  DecisionLog log;
  log.add({.function = FunctionId{1}}, Instant{});
  log.add({.function = FunctionId{2}}, Instant{});
  log.forget(FunctionId{1});
  ASSERT_EQ(log.entries().size(), 1U);
  EXPECT_EQ(log.entries().front().decision.function, FunctionId{2});
}

}  // namespace
}  // namespace weft::sriov
