#include "node/shared_devices.h"

#include <gtest/gtest.h>

namespace weft::node {
namespace {

constexpr ProcessId process(std::uint32_t slot) {
  return {.host = fabric::NodeIndex{3}, .slot = slot};
}
constexpr SharedDevices::Name file(std::uint64_t inode) {
  return {.host = fabric::NodeIndex{3}, .device = 1, .inode = inode};
}

TEST(SharedDevices, AreFoundByTheFileOfTheirDescriptor) {
  SharedDevices devices;
  EXPECT_EQ(devices.import(process(2), file(7)).error().code, ErrorCode::TryAgain);
  const auto shared = devices.share(process(1), file(7), 1);
  ASSERT_TRUE(shared);
  EXPECT_EQ(devices.share(process(2), file(7), 0).error().code, ErrorCode::Exists)
      << "a device is not taken over";
  EXPECT_EQ(devices.import(process(2), file(7)), *shared);
  EXPECT_EQ(devices.owned(process(1), file(7)), *shared);
  EXPECT_FALSE(devices.owned(process(2), file(7)));
  EXPECT_FALSE(devices.owned(process(1), file(8)));
  EXPECT_EQ(devices.find(*shared)->owner, process(1));
  EXPECT_EQ(devices.find(*shared)->hca, 1U);
  EXPECT_TRUE(devices.has(process(1), *shared));
  EXPECT_TRUE(devices.has(process(2), *shared));
  EXPECT_FALSE(devices.has(process(3), *shared));
  SharedDevices::Name elsewhere = file(7);
  elsewhere.host = fabric::NodeIndex{4};
  EXPECT_FALSE(devices.import(process(3), elsewhere)) << "each host has files of its own";
}

TEST(SharedDevices, GoWithTheirOwner) {
  SharedDevices devices;
  const std::uint32_t shared = *devices.share(process(1), file(7), 0);
  EXPECT_TRUE(devices.import(process(2), file(7)));
  EXPECT_TRUE(devices.import(process(3), file(7)));
  EXPECT_EQ(devices.leave(process(1), shared, true), (std::vector{process(2), process(3)}));
  EXPECT_EQ(devices.find(shared), nullptr);
  EXPECT_TRUE(devices.of(process(2)).empty());
  EXPECT_NE(*devices.share(process(1), file(7), 0), shared) << "a number means one device";
}

TEST(SharedDevices, AreLeftAsOftenAsTheyWereImported) {
  SharedDevices devices;
  const std::uint32_t shared = *devices.share(process(1), file(7), 0);
  EXPECT_TRUE(devices.import(process(2), file(7)));
  EXPECT_TRUE(devices.import(process(2), file(7)));
  EXPECT_TRUE(devices.leave(process(2), shared, false).empty());
  EXPECT_TRUE(devices.has(process(2), shared));
  EXPECT_EQ(devices.leave(process(2), shared, false), std::vector{process(1)});
  EXPECT_FALSE(devices.has(process(2), shared));
  EXPECT_TRUE(devices.leave(process(2), shared, false).empty());
  EXPECT_TRUE(devices.import(process(2), file(7)));
  EXPECT_TRUE(devices.import(process(2), file(7)));
  EXPECT_EQ(devices.leave(process(2), shared, true), std::vector{process(1)}) << "a death";
}

TEST(SharedDevices, AreLimitedForEachProcess) {
  SharedDevices devices;
  for (std::uint64_t inode = 0; inode < SharedDevices::kMaxOfProcess; ++inode) {
    ASSERT_TRUE(devices.share(process(1), file(inode), 0));
    ASSERT_TRUE(devices.import(process(2), file(inode)));
  }
  EXPECT_EQ(devices.share(process(1), file(9'999), 0).error().code, ErrorCode::OutOfMemory);
  EXPECT_TRUE(devices.share(process(3), file(9'999), 0));
  EXPECT_EQ(devices.import(process(2), file(9'999)).error().code, ErrorCode::OutOfMemory);
  EXPECT_TRUE(devices.import(process(2), file(0))) << "it has it already";
}

}  // namespace
}  // namespace weft::node
