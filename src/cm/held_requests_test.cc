#include "cm/held_requests.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::cm {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kService = 0x0106'1D2F;
constexpr Duration kGrace = Duration::milliseconds(100);
constexpr Instant kStart{Duration::seconds(1)};

TEST(HeldRequests, KeepsARequestUntilSomebodyListens) {
  HeldRequests absent{kGrace};
  absent.on_listener_closed(kService, kStart);
  EXPECT_TRUE(absent.keep(kService, {}, kStart + Duration::milliseconds(50)));
  EXPECT_THAT(absent.take_due(kStart + Duration::milliseconds(60)), IsEmpty());
  absent.on_listener_added(kService);
  EXPECT_EQ(absent.deadline(), Instant{});
  EXPECT_THAT(absent.take_due(kStart + Duration::milliseconds(60)), SizeIs(1));
  EXPECT_EQ(absent.deadline(), Instant::never());
}

TEST(HeldRequests, KeepsNothingOfServicesThatWereNotThereLately) {
  HeldRequests absent{kGrace};
  EXPECT_FALSE(absent.keep(kService, {}, kStart));
  absent.on_listener_closed(kService, kStart);
  EXPECT_FALSE(absent.keep(kService + 1, {}, kStart));
  EXPECT_FALSE(absent.keep(kService, {}, kStart + kGrace * HeldRequests::kRememberedGraces));
}

TEST(HeldRequests, GivesARequestItsGraceWheneverItComes) {
  HeldRequests absent{kGrace};
  absent.on_listener_closed(kService, kStart);
  const Instant later = kStart + kGrace * 3;
  EXPECT_TRUE(absent.keep(kService, {}, later)) << "perftest listens again after a second";
  EXPECT_EQ(absent.deadline(), later + kGrace);
  EXPECT_THAT(absent.take_due(later + kGrace), SizeIs(1));
  EXPECT_FALSE(absent.keep(kService, {}, later + kGrace)) << "a request is not held for ever";
}

TEST(HeldRequests, LetsARequestGoWhenTheGraceIsOver) {
  HeldRequests absent{kGrace};
  absent.on_listener_closed(kService, kStart);
  EXPECT_TRUE(absent.keep(kService, {}, kStart));
  EXPECT_EQ(absent.deadline(), kStart + kGrace);
  EXPECT_THAT(absent.take_due(kStart + kGrace), SizeIs(1));
  EXPECT_FALSE(absent.keep(kService, {}, kStart + kGrace));
}

TEST(HeldRequests, HoldsSoManyAndNoMore) {
  HeldRequests absent{kGrace};
  absent.on_listener_closed(kService, kStart);
  for (std::size_t i = 0; i < HeldRequests::kMost; ++i) {
    ASSERT_TRUE(absent.keep(kService, {}, kStart));
  }
  EXPECT_FALSE(absent.keep(kService, {}, kStart));
}

TEST(HeldRequests, WithoutAGraceNothingWaits) {
  HeldRequests absent{Duration{}};
  absent.on_listener_closed(kService, kStart);
  EXPECT_FALSE(absent.keep(kService, {}, kStart));
}

}  // namespace
}  // namespace weft::cm
