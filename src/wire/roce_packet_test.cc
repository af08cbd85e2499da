#include "wire/roce_packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "wire/testing/golden_captures.h"

namespace weft::wire {
namespace {

class Golden : public ::testing::TestWithParam<std::string> {};

TEST_P(Golden, EveryRocePacketUnpacksHasTheRightIcrcAndPacksToTheSameBytes) {
  std::size_t packets = 0;
  std::vector<std::byte> bytes;
  ASSERT_TRUE(for_each_frame(GetParam(), [&](std::span<const std::byte> frame) {
    if (!is_roce_v2(frame)) {
      return;
    }
    ++packets;
    const auto packet = parse_roce_packet(frame, CrcCheck::Verify);
    ASSERT_TRUE(packet) << "packet " << packets << ": " << packet.error().reason;
    if (const Ipv4* ip = std::get_if<Ipv4>(&packet->ip)) {
      EXPECT_EQ(ipv4_checksum(*ip), ip->checksum);
    }
    serialise(*packet, bytes);
    // Short frames are padded by Ethernet; the packet ends where UDP says.
    ASSERT_LE(bytes.size(), frame.size());
    EXPECT_TRUE(std::ranges::equal(bytes, frame.first(bytes.size()))) << "packet " << packets;
  }));
  EXPECT_GT(packets, 0U);
}

INSTANTIATE_TEST_SUITE_P(Captures, Golden, ::testing::ValuesIn(golden_captures()),
                         [](const auto& test) {
                           return std::filesystem::path{test.param}.stem().string();
                         });

TEST(RocePacket, RefusesAWrongIcrc) {
  bool tried = false;
  for_each_frame(golden_captures().front(), [&](std::span<const std::byte> frame) {
    if (tried || !is_roce_v2(frame)) {
      return;
    }
    tried = true;
    std::vector<std::byte> damaged(frame.begin(), frame.end());
    damaged[60] ^= std::byte{1};
    EXPECT_FALSE(parse_roce_packet(damaged, CrcCheck::Verify));
  });
  EXPECT_TRUE(tried);
}

TEST(RocePacket, RefusesAPayloadWhosePadIsMissing) {
  bool tried = false;
  for_each_frame(golden_captures().front(), [&](std::span<const std::byte> frame) {
    if (tried || !is_roce_v2(frame)) {
      return;
    }
    tried = true;
    std::vector<std::byte> odd(frame.begin(), frame.end());
    odd[39] = std::byte(std::to_integer<unsigned>(odd[39]) - 1);  // UDP Length behind IPv4
    const auto refused = parse_roce_packet(odd, CrcCheck::Skip);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().reason.find("multiple of 4"), std::string::npos);
  });
  EXPECT_TRUE(tried);
}

TEST(RocePacket, IsToldApartFromOtherProtocols) {
  bool tried = false;
  for_each_frame(golden_captures().front(), [&](std::span<const std::byte> frame) {
    if (tried || !is_roce_v2(frame)) {
      return;
    }
    tried = true;
    std::vector<std::byte> other(frame.begin(), frame.end());
    other[37] ^= std::byte{1};  // UDP DestinationPort behind an IPv4 header
    EXPECT_FALSE(is_roce_v2(other));
    EXPECT_EQ(parse_roce_packet(other, CrcCheck::Skip).error().code, ErrorCode::NotSupported);
    const auto cut = parse_roce_packet(frame.first(frame.size() - 20), CrcCheck::Skip);
    EXPECT_EQ(cut.error().code, ErrorCode::Io);
  });
  EXPECT_TRUE(tried);
}

}  // namespace
}  // namespace weft::wire
