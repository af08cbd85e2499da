#include "sa/path_cache.h"

#include <gtest/gtest.h>

namespace weft::sa {
namespace {

const Instant kNow{Duration::seconds(1)};

[[nodiscard]] PathQuery to(std::uint64_t guid, std::uint16_t pkey = 0) {
  return {
      .dgid = Gid{kDefaultGidPrefix, Guid{guid}},
        .pkey = PKey{pkey}
  };
}

TEST(PathCache, KnowsAPathForItsWishAlone) {
  PathCache cache{10, Duration::seconds(5)};
  cache.put(to(1, 0x8001), {.dlid = Lid{9}}, kNow);
  EXPECT_EQ(cache.find(to(1, 0x8001), kNow)->dlid, Lid{9});
  EXPECT_FALSE(cache.find(to(1), kNow).has_value());
  EXPECT_FALSE(cache.find(to(2, 0x8001), kNow).has_value());
  cache.put(to(1, 0x8001), {.dlid = Lid{10}}, kNow);
  EXPECT_EQ(cache.find(to(1, 0x8001), kNow)->dlid, Lid{10});
  EXPECT_EQ(cache.size(), 1U);
}

TEST(PathCache, ForgetsWhatIsTooOld) {
  PathCache cache{10, Duration::seconds(5)};
  cache.put(to(1), {}, kNow);
  EXPECT_TRUE(cache.find(to(1), kNow + Duration::milliseconds(4'999)).has_value());
  EXPECT_FALSE(cache.find(to(1), kNow + Duration::seconds(5)).has_value());
  EXPECT_EQ(cache.size(), 0U);
}

TEST(PathCache, MakesRoomByTheOldest) {
  PathCache cache{2, Duration::seconds(5)};
  cache.put(to(1), {}, kNow);
  cache.put(to(2), {}, kNow);
  cache.put(to(1), {}, kNow);
  cache.put(to(3), {}, kNow);
  EXPECT_EQ(cache.size(), 2U);
  EXPECT_TRUE(cache.find(to(1), kNow).has_value());
  EXPECT_FALSE(cache.find(to(2), kNow).has_value());
  PathCache none{0, Duration::seconds(5)};
  none.put(to(1), {}, kNow);
  EXPECT_EQ(none.size(), 0U);
}

TEST(PathCache, ForgetsAllPathsToAPort) {
  PathCache cache{10, Duration::seconds(5)};
  cache.put(to(1), {}, kNow);
  cache.put(to(2), {}, kNow);
  cache.put(to(2, 0x8001), {}, kNow);
  cache.put(to(3), {}, kNow);
  cache.erase_to(to(2).dgid);
  EXPECT_EQ(cache.size(), 2U);
  EXPECT_TRUE(cache.find(to(3), kNow).has_value());
  cache.clear();
  EXPECT_EQ(cache.size(), 0U);
}

}  // namespace
}  // namespace weft::sa
