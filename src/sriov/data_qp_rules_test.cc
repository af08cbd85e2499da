#include "sriov/data_qp_rules.h"

#include <gtest/gtest.h>

#include <optional>

namespace weft::sriov {
namespace {

constexpr FunctionId kVf{1};
constexpr QKey kOther{0x8001'0001};

TEST(SriovDataQp, TheWellKnownQKeyIsRefused) {  // R-SRI-2
  const auto refused = check_data_qkey(kVf, false, QKey{0x8001'0000});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::InvalidArgument);
  EXPECT_TRUE(check_data_qkey(kVf, false, kOther).has_value());
  EXPECT_TRUE(check_data_qkey(kPhysicalFunction, false, kGsiQKey).has_value());
}

TEST(SriovDataQp, OfAFunctionThatIsTrustedHasTheWellKnownQKey) {
  EXPECT_TRUE(check_data_qkey(kVf, true, kGsiQKey).has_value());
}

TEST(SriovDataQp, ASendWithTheWellKnownQKeyOrOnVl15IsDropped) {  // R-SRI-2
  EXPECT_EQ(check_data_send(kVf, kGsiQKey, VirtualLane{0}), Reason::WellKnownQKey);
  EXPECT_EQ(check_data_send(kVf, kOther, VirtualLane{15}), Reason::VirtualLane15);
  EXPECT_EQ(check_data_send(kVf, kOther, VirtualLane{14}), std::nullopt);
  EXPECT_EQ(check_data_send(kPhysicalFunction, kGsiQKey, VirtualLane{15}), std::nullopt);
}

}  // namespace
}  // namespace weft::sriov
