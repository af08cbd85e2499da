// The checker of alternate paths and lookups detects violations.

#include "sim/cm_exchanges.h"

#include <gtest/gtest.h>

namespace weft::sim {
namespace {

constexpr CmExchanges::Token kToken = 1;

[[nodiscard]] cm::Path path_number(std::uint8_t number) {
  cm::Path path;
  path.sl = ServiceLevel{number};
  return path;
}

struct Exchanges : ::testing::Test {
  Verdict verdict;
  CmExchanges exchanges{verdict};
};

TEST_F(Exchanges, AgreeOnAPathThatWasAccepted) {
  const auto number = exchanges.path_requested(kToken);
  exchanges.path_request_received(kToken, number, path_number(number));
  exchanges.path_answered(kToken, number, true);
  exchanges.path_loaded(kToken, CmSide::Server, path_number(number));
  exchanges.path_answer_received(kToken, number, number, true);
  exchanges.path_loaded(kToken, CmSide::Client, path_number(number));
  EXPECT_TRUE(verdict.ok()) << verdict.failure();
  EXPECT_EQ(exchanges.paths_loaded(), 1U);
}

TEST_F(Exchanges, NoticeALapThatIsToldTwice) {
  const auto number = exchanges.path_requested(kToken);
  exchanges.path_request_received(kToken, number, path_number(number));
  exchanges.path_request_received(kToken, number, path_number(number));
  EXPECT_FALSE(verdict.ok());
}

TEST_F(Exchanges, NoticeAnAprThatNobodyGave) {
  const auto number = exchanges.path_requested(kToken);
  exchanges.path_answered(kToken, number, false);
  exchanges.path_answer_received(kToken, number, number, true);
  EXPECT_FALSE(verdict.ok());
}

TEST_F(Exchanges, NoticeAnAprForAnEarlierPath) {
  const auto first = exchanges.path_requested(kToken);
  exchanges.path_answered(kToken, first, true);
  const auto second = exchanges.path_requested(kToken);
  exchanges.path_answer_received(kToken, second, first, true);
  EXPECT_FALSE(verdict.ok());
}

TEST_F(Exchanges, NoticeARefusedPathThatIsLoaded) {
  const auto number = exchanges.path_requested(kToken);
  exchanges.path_answered(kToken, number, false);
  exchanges.path_answer_received(kToken, number, number, false);
  exchanges.path_loaded(kToken, CmSide::Client, path_number(number));
  EXPECT_FALSE(verdict.ok());
}

TEST_F(Exchanges, TakeALookupsAnswerOnceAndAsItWasGiven) {
  const cm::SidrRepReceived answer{
      .status = wire::SidrStatus::Success, .qpn = Qpn{7}, .qkey = QKey{9}};
  exchanges.lookup_requested(kToken, 2, true);
  exchanges.lookup_request_received(kToken);
  exchanges.lookup_answered(kToken, answer);
  exchanges.lookup_answer_received(kToken, answer);
  EXPECT_TRUE(verdict.ok()) << verdict.failure();
  EXPECT_EQ(exchanges.lookups_made(), 1U);
  exchanges.lookup_answer_received(kToken, answer);
  EXPECT_FALSE(verdict.ok());
}

TEST_F(Exchanges, NoticeALookupThatIsToldTwiceBeforeItIsAnswered) {
  exchanges.lookup_requested(kToken, 2, true);
  exchanges.lookup_request_received(kToken);
  exchanges.lookup_request_received(kToken);
  EXPECT_FALSE(verdict.ok());
}

TEST_F(Exchanges, NoticeALookupThatIsRefusedThoughSomebodyListens) {
  exchanges.lookup_requested(kToken, 2, true);
  exchanges.lookup_answer_received(kToken, {.status = wire::SidrStatus::Unsupported});
  EXPECT_FALSE(verdict.ok());
}

}  // namespace
}  // namespace weft::sim
