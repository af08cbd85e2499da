#include <gtest/gtest.h>

#include <array>

#include "fabric/testing/running_fabric.h"

namespace weft::fabric {
namespace {

using testing::RunningFabric;

TEST(TablesBlocks, OfForwardingAreReadAsWritten) {
  RunningFabric fabric{*generate_star(3)};
  const NodeIndex s1 = fabric.node("s1");
  std::array<std::byte, kForwardingBlock> block{};
  block.fill(std::byte{2});
  block[5] = std::byte{77};  // a port that s1 does not have
  EXPECT_TRUE(fabric.builder.set_forwarding_block(s1, 2, block));
  EXPECT_FALSE(fabric.builder.set_forwarding_block(s1, 2, block));  // no change
  std::array<std::byte, kForwardingBlock> read{};
  fabric.builder.get_forwarding_block(s1, 2, read);
  block[5] = std::byte{kNoRoute.value()};
  EXPECT_EQ(read, block);
  fabric.builder.get_forwarding_block(s1, 700, read);
  EXPECT_EQ(read[63], std::byte{kNoRoute.value()});
  EXPECT_TRUE(fabric.builder.set_forwarding_block(s1, 0, block));
  EXPECT_EQ(fabric.builder.forward(s1, Lid{0}), kNoRoute);  // not a LID
}

TEST(TablesBlocks, BeyondTheTopAreKeptAndNotForwarded) {
  RunningFabric fabric{*generate_star(3)};
  const NodeIndex s1 = fabric.node("s1");
  fabric.builder.set_forwarding(s1, Lid{90}, PortNumber{3});
  fabric.builder.set_forwarding_top(s1, Lid{89});
  fabric.publish();
  EXPECT_EQ(fabric.builder.forward(s1, Lid{90}), kNoRoute);
  EXPECT_EQ(fabric.view().forward(fabric.view().node(s1), Lid{90}), kNoRoute);
  fabric.builder.set_forwarding_top(s1, Lid{90});
  fabric.publish();
  EXPECT_EQ(fabric.builder.forward(s1, Lid{90}), PortNumber{3});
  EXPECT_EQ(fabric.view().forward(fabric.view().node(s1), Lid{90}), PortNumber{3});
}

TEST(TablesBlocks, OfMulticastAreMasksOf16Ports) {
  RunningFabric fabric{*generate_star(20)};
  const NodeIndex s1 = fabric.node("s1");
  EXPECT_TRUE(fabric.builder.set_multicast_mask(s1, Lid{0xC009}, 1, 0x8011));
  EXPECT_EQ(fabric.builder.multicast_mask(s1, Lid{0xC009}, 1), 0x0011);  // it has 20 ports
  EXPECT_FALSE(fabric.builder.set_multicast_mask(s1, Lid{0xC009}, 1, 0x0011));
  fabric.publish();
  EXPECT_TRUE(
      fabric.view().forwards_multicast(fabric.view().node(s1), Lid{0xC009}, PortNumber{16}));
  EXPECT_EQ(fabric.builder.multicast_mask(s1, Lid{0xC009}, 9), 0);
}

}  // namespace
}  // namespace weft::fabric
