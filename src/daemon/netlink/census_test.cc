#include "daemon/netlink/census.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>

namespace weft::daemon {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::SizeIs;

constexpr node::ProcessId kFirst{.host = fabric::NodeIndex{0}, .slot = 1};
constexpr node::ProcessId kSecond{.host = fabric::NodeIndex{0}, .slot = 2};

class Census : public ::testing::Test {
 protected:
  void take(const std::vector<node::ProcessId>& programs) {
    census_.take(
        programs,
        [this](node::ProcessId program, const uabi::ListObjects& question) {
          asked_.push_back(program);
          request_ = question.request;
        },
        [this](const ObjectCensus::Answers& answers) { answers_ = answers; });
  }
  static uabi::ObjectsHeld part(std::uint32_t request, bool is_last) {
    uabi::ObjectsHeld held;
    held.request = request;
    held.is_last = is_last;
    return held;
  }
  bool say(node::ProcessId from, bool is_last) {
    return census_.take_answer(from, part(request_, is_last));
  }

  asio::io_context loop_;
  ObjectCensus census_{loop_};
  std::vector<node::ProcessId> asked_;
  std::uint32_t request_{};
  std::optional<ObjectCensus::Answers> answers_;
};

TEST_F(Census, OfNobodyIsOverAtOnce) {
  take({});
  ASSERT_TRUE(answers_.has_value());
  EXPECT_THAT(*answers_, IsEmpty());
}

TEST_F(Census, WaitsForTheLastWordOfEach) {
  take({kFirst, kSecond});
  EXPECT_THAT(asked_, ElementsAre(kFirst, kSecond));
  EXPECT_TRUE(say(kFirst, false));
  EXPECT_TRUE(say(kFirst, true));
  EXPECT_FALSE(answers_.has_value());
  EXPECT_FALSE(say(kFirst, true)) << "it has said its last";
  EXPECT_TRUE(say(kSecond, true));
  ASSERT_TRUE(answers_.has_value());
  EXPECT_THAT(answers_->at(kFirst), SizeIs(2));
}

TEST_F(Census, DoesNotWaitForTheDead) {
  take({kFirst, kSecond});
  EXPECT_TRUE(say(kFirst, true));
  census_.forget(kSecond);
  ASSERT_TRUE(answers_.has_value());
  EXPECT_THAT(*answers_, ElementsAre(Key(kFirst)));
}

TEST_F(Census, DoesNotWaitForLong) {
  take({kFirst});
  EXPECT_FALSE(answers_.has_value());
  loop_.run_for(std::chrono::seconds{10});
  ASSERT_TRUE(answers_.has_value());
  EXPECT_THAT(*answers_, IsEmpty());
  EXPECT_TRUE(say(kFirst, true)) << "too late is no offence";
}

TEST_F(Census, RefusesAnswersToNoQuestionAndOnesWithoutEnd) {
  EXPECT_FALSE(census_.take_answer(kFirst, part(7, false)));
  take({kFirst});
  EXPECT_FALSE(say(kSecond, true)) << "it was not asked";
  for (std::size_t i = 0; i < ObjectCensus::kMaxParts; ++i) {
    ASSERT_TRUE(say(kFirst, false));
  }
  EXPECT_FALSE(say(kFirst, false));
}

}  // namespace
}  // namespace weft::daemon
