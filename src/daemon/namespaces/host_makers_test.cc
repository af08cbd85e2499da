#include "daemon/namespaces/host_makers.h"

#include <gtest/gtest.h>

#include <array>

namespace weft::daemon {
namespace {

constexpr fabric::NodeIndex kHost{1};
constexpr fabric::NodeIndex kOther{2};
constexpr Instant kNow{Duration::seconds(100)};

/// Never looked into.
class HostMakersTest : public ::testing::Test {
 protected:
  [[nodiscard]] Client& client(std::size_t which) {
    return reinterpret_cast<Client&>(places_.at(which));
  }
  std::array<char, 4> places_{};
  HostMakers makers_;
};

TEST_F(HostMakersTest, LetOneMakeAHostAndTheOthersWait) {
  EXPECT_TRUE(makers_.take(kHost, client(0), kNow));
  EXPECT_TRUE(makers_.take(kHost, client(0), kNow)) << "its own turn still";
  EXPECT_FALSE(makers_.take(kHost, client(1), kNow));
  EXPECT_FALSE(makers_.take(kHost, client(2), kNow));
  EXPECT_FALSE(makers_.take(kHost, client(1), kNow)) << "it does not wait twice";
  EXPECT_TRUE(makers_.take(kOther, client(3), kNow)) << "another host";
  EXPECT_EQ(makers_.finish(kHost), &client(1));
  EXPECT_EQ(makers_.finish(kHost), &client(2));
  EXPECT_EQ(makers_.finish(kHost), nullptr);
  EXPECT_TRUE(makers_.take(kHost, client(1), kNow)) << "nobody is at it";
}

TEST_F(HostMakersTest, PassTheTurnOfOneThatGoes) {
  ASSERT_TRUE(makers_.take(kHost, client(0), kNow));
  ASSERT_TRUE(makers_.take(kOther, client(0), kNow));
  ASSERT_FALSE(makers_.take(kHost, client(1), kNow));
  ASSERT_FALSE(makers_.take(kHost, client(2), kNow));
  EXPECT_FALSE(makers_.leave(client(1), kNow)) << "it only waited";
  const auto turn = makers_.leave(client(0), kNow);
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->host, kHost);
  EXPECT_EQ(turn->maker, &client(2));
  EXPECT_FALSE(makers_.leave(client(0), kNow)) << "nobody waited for the other host";
  EXPECT_TRUE(makers_.take(kOther, client(3), kNow));
}

TEST_F(HostMakersTest, PassTheTurnOfOneThatTakesTooLong) {
  ASSERT_TRUE(makers_.take(kHost, client(0), kNow));
  EXPECT_FALSE(makers_.take(kHost, client(1), kNow + HostMakers::kTurn - Duration::nanoseconds(1)));
  EXPECT_TRUE(makers_.take(kHost, client(1), kNow + HostMakers::kTurn));
  EXPECT_FALSE(makers_.take(kHost, client(2), kNow + HostMakers::kTurn)) << "a turn of its own";
  EXPECT_FALSE(makers_.leave(client(0), kNow)) << "it has none any longer";
  EXPECT_EQ(makers_.finish(kHost), &client(2));
}

}  // namespace
}  // namespace weft::daemon
