#include "wire/grh.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::wire {
namespace {

/// Written by hand from IBTA vol 1 §8.3: IPVer 6, TClass 0x12, FlowLabel 0x34567, PayLen 48, NxtHdr
/// 0x1B, HopLmt 64, and two GIDs.
constexpr auto kGolden = std::to_array<std::uint8_t>(
    {0x61, 0x23, 0x45, 0x67, 0x00, 0x30, 0x1B, 0x40, 0xFE, 0x80, 0x00, 0x00, 0x00, 0x00,
     0x00, 0x00, 0x00, 0x02, 0xC9, 0x03, 0x00, 0x01, 0x02, 0x03, 0xFF, 0x12, 0x40, 0x1B,
     0xFF, 0xFF, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xFF, 0xFF, 0xFF, 0xFF});

TEST(Grh, IsItsGoldenBytes) {  // part of T-PACK-2
  const Grh grh{
      .traffic_class = 0x12,
      .flow_label = 0x34567,
      .payload_length = 48,
      .hop_limit = 64,
      .sgid = Gid{0xFE80'0000'0000'0000, Guid{0x0002'C903'0001'0203}},
      .dgid = Gid{0xFF12'401B'FFFF'0000, Guid{0xFFFF'FFFF}          }
  };
  std::array<std::byte, kGolden.size()> golden{};
  std::ranges::transform(kGolden, golden.begin(),
                         [](std::uint8_t octet) { return std::byte{octet}; });
  EXPECT_EQ(pack(grh), golden);
  EXPECT_EQ(unpack<Grh>(golden), grh);
}

}  // namespace
}  // namespace weft::wire
