#include "programs/net/active_backup.h"

#include <gtest/gtest.h>

#include <array>

namespace weft::programs::net {
namespace {

TEST(ActiveBackup, IsTheFirstPortThatIsUpUntilItGoesDown) {  // R-IPOIB-30
  EXPECT_EQ(choose_active(0, std::array{true, true}), 0U);
  EXPECT_EQ(choose_active(0, std::array{false, true}), 1U);
  EXPECT_EQ(choose_active(1, std::array{true, true}), 1U);  // and does not change back by itself
  EXPECT_EQ(choose_active(1, std::array{true, false}), 0U);
  EXPECT_EQ(choose_active(1, std::array{false, false}), 1U);
  EXPECT_EQ(choose_active(0, std::array{false}), 0U);
}

}  // namespace
}  // namespace weft::programs::net
