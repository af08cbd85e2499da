#include "cm/communication_ids.h"

#include <gtest/gtest.h>

#include <bitset>
#include <cstddef>
#include <set>

namespace weft::cm {
namespace {

TEST(CommunicationIds, DoNotComeAgainSoonAndAreNeverZero) {  // R-CM-10
  CommunicationIds ids{7};
  std::set<std::uint32_t> seen;
  for (int i = 0; i < 200'000; ++i) {
    const std::uint32_t id = ids.next();
    EXPECT_NE(id, 0U);
    EXPECT_TRUE(seen.insert(id).second);
  }
}

TEST(CommunicationIds, AreAnotherOrderForEachSeed) {
  CommunicationIds one{1};
  CommunicationIds two{2};
  CommunicationIds one_again{1};
  unsigned same = 0;
  for (int i = 0; i < 1000; ++i) {
    const std::uint32_t id = one.next();
    same += id == two.next() ? 1 : 0;
    EXPECT_EQ(id, one_again.next());
  }
  EXPECT_LE(same, 1U);
}

TEST(CommunicationIds, OfOneStepDifferInAboutHalfOfTheirBits) {
  CommunicationIds ids{3};
  std::size_t bits = 0;
  std::uint32_t last = ids.next();
  for (int i = 0; i < 10'000; ++i) {
    const std::uint32_t id = ids.next();
    bits += std::bitset<32>{id ^ last}.count();
    last = id;
  }
  EXPECT_NEAR(static_cast<double>(bits) / 10'000, 16.0, 0.3);
}

}  // namespace
}  // namespace weft::cm
