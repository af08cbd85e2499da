#include "cm/absent_listeners.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace weft::cm {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint64_t kService = 0x0106'1D2F;
constexpr Duration kGrace = Duration::milliseconds(100);
constexpr Instant kStart{Duration::seconds(1)};

TEST(AbsentListeners, KeepsARequestUntilSomebodyListens) {
  AbsentListeners absent{kGrace};
  absent.listener_went(kService, kStart);
  EXPECT_TRUE(absent.keep(kService, {}, kStart + Duration::milliseconds(50)));
  EXPECT_THAT(absent.take_due(kStart + Duration::milliseconds(60)), IsEmpty());
  absent.listener_came(kService);
  EXPECT_EQ(absent.deadline(), Instant{});
  EXPECT_THAT(absent.take_due(kStart + Duration::milliseconds(60)), SizeIs(1));
  EXPECT_EQ(absent.deadline(), Instant::never());
}

TEST(AbsentListeners, KeepsNothingOfServicesThatWereNotThereLately) {
  AbsentListeners absent{kGrace};
  EXPECT_FALSE(absent.keep(kService, {}, kStart));
  absent.listener_went(kService, kStart);
  EXPECT_FALSE(absent.keep(kService + 1, {}, kStart));
  EXPECT_FALSE(absent.keep(kService, {}, kStart + kGrace));
}

TEST(AbsentListeners, LetsARequestGoWhenTheGraceIsOver) {
  AbsentListeners absent{kGrace};
  absent.listener_went(kService, kStart);
  EXPECT_TRUE(absent.keep(kService, {}, kStart));
  EXPECT_EQ(absent.deadline(), kStart + kGrace);
  EXPECT_THAT(absent.take_due(kStart + kGrace), SizeIs(1));
  EXPECT_FALSE(absent.keep(kService, {}, kStart + kGrace));
}

TEST(AbsentListeners, HoldsSoManyAndNoMore) {
  AbsentListeners absent{kGrace};
  absent.listener_went(kService, kStart);
  for (std::size_t i = 0; i < AbsentListeners::kMost; ++i) {
    ASSERT_TRUE(absent.keep(kService, {}, kStart));
  }
  EXPECT_FALSE(absent.keep(kService, {}, kStart));
}

TEST(AbsentListeners, WithoutAGraceNothingWaits) {
  AbsentListeners absent{Duration{}};
  absent.listener_went(kService, kStart);
  EXPECT_FALSE(absent.keep(kService, {}, kStart));
}

}  // namespace
}  // namespace weft::cm
