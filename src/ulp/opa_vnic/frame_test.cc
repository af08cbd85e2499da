#include "ulp/opa_vnic/frame.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/random.h"
#include "ulp/opa_vnic/testing_frames.h"
#include "wire/vlan.h"

namespace weft::opa_vnic {
namespace {

using testing::FrameText;
using testing::make_frame;

TEST(OpaVnicFrame, SaysWhoseItIs) {
  const auto facts = facts_of(make_frame({.destination = 0x0011'2233'4455, .source = 0x0066}));
  ASSERT_TRUE(facts);
  EXPECT_EQ(facts->destination.number(), 0x0011'2233'4455U);
  EXPECT_EQ(facts->source.number(), 0x66U);
  EXPECT_EQ(facts->priority, std::nullopt);
  EXPECT_FALSE(facts_of(std::vector<std::byte>(13)));
  EXPECT_TRUE(facts_of(std::vector<std::byte>(14)));
}

TEST(OpaVnicFrame, HasAKindThatSelectsTheRoutingControl) {  // R-VN-16
  struct Case {
    std::uint16_t ether_type;
    std::uint8_t protocol;
    PacketKind kind;
    unsigned shift;
  };
  for (const Case& one : {
           Case{0x0806, 0,  PacketKind::Other,   0 },
           Case{0x0800, 1,  PacketKind::Ipv4,    4 },
           Case{0x0800, 17, PacketKind::Ipv4Udp, 8 },
           Case{0x0800, 6,  PacketKind::Ipv4Tcp, 12},
           Case{0x86DD, 58, PacketKind::Ipv6,    16},
           Case{0x86DD, 6,  PacketKind::Ipv6Tcp, 20},
           Case{0x86DD, 17, PacketKind::Ipv6Udp, 24}
  }) {
    for (const std::optional<std::uint8_t> pcp : {std::optional<std::uint8_t>{}, {5}}) {
      const auto facts = facts_of(make_frame({.destination = 1,
                                              .source = 2,
                                              .priority = pcp,
                                              .ether_type = one.ether_type,
                                              .protocol = one.protocol}));
      ASSERT_TRUE(facts);
      EXPECT_EQ(facts->kind, one.kind) << one.shift;
      EXPECT_EQ(facts->priority, pcp);
      EXPECT_EQ(routing_control(std::uint32_t{5} << one.shift, facts->kind), 5);
      EXPECT_EQ(routing_control(~(std::uint32_t{7} << one.shift), facts->kind), 0);
    }
  }
}

TEST(OpaVnicFrame, HasOneEntropyForAFlowAndManyForMany) {
  std::array<bool, 256> seen{};
  for (std::uint16_t port = 0; port < 500; ++port) {
    FrameText text{.destination = 1, .source = 2, .ether_type = 0x0800, .protocol = 6};
    text.source_port = port;
    const auto first = facts_of(make_frame(text));
    text.bytes = 200;
    EXPECT_EQ(facts_of(make_frame(text))->entropy, first->entropy);
    seen[first->entropy] = true;
  }
  EXPECT_GT(std::ranges::count(seen, true), 100);
}

TEST(OpaVnicFrame, OfAnyBytesIsNoTrouble) {
  Random random{1};
  for (std::size_t bytes = 14; bytes < 80; ++bytes) {
    const auto whole = make_frame(
        {.destination = 1,
         .source = 2,
         .priority = 1,
         .ether_type = random.chance(1, 2) ? std::uint16_t{0x0800} : std::uint16_t{0x86DD},
         .protocol = 6});
    EXPECT_TRUE(facts_of(ByteSpan{whole}.first(std::min(bytes, whole.size()))));
  }
}

}  // namespace
}  // namespace weft::opa_vnic
