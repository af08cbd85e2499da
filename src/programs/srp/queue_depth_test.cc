#include "programs/srp/queue_depth.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace weft::programs::srp {
namespace {

using ::testing::ElementsAre;

/// A device with memory for queues up to `most`.
struct Device {
  std::uint32_t most{};
  ErrorCode refusal{ErrorCode::OutOfMemory};
  std::vector<std::uint32_t> asked{};
  [[nodiscard]] Result<std::uint32_t> make(std::uint32_t depth) {
    asked.push_back(depth);
    if (depth > most) {
      return fail(refusal, "no room for {}", depth);
    }
    return depth;
  }
};

TEST(SrpQueueDepth, IsHalvedWhileTheDeviceHasNoMemory) {  // R-SRPT-9
  Device device{.most = 100};
  const auto made =
      make_as_deep_as_possible(384, [&device](std::uint32_t depth) { return device.make(depth); });
  EXPECT_EQ(made.value(), 96U);
  EXPECT_THAT(device.asked, ElementsAre(384, 192, 96));
}

TEST(SrpQueueDepth, IsNoLessThan16) {  // R-SRPT-9
  Device device{.most = 15};
  const auto made =
      make_as_deep_as_possible(64, [&device](std::uint32_t depth) { return device.make(depth); });
  EXPECT_EQ(made.error().code, ErrorCode::OutOfMemory);
  EXPECT_THAT(device.asked, ElementsAre(64, 32, 16));
}

TEST(SrpQueueDepth, IsNotChangedForOtherRefusals) {
  Device device{.most = 15, .refusal = ErrorCode::InvalidArgument};
  const auto made =
      make_as_deep_as_possible(64, [&device](std::uint32_t depth) { return device.make(depth); });
  EXPECT_EQ(made.error().code, ErrorCode::InvalidArgument);
  EXPECT_THAT(device.asked, ElementsAre(64));
}

}  // namespace
}  // namespace weft::programs::srp
