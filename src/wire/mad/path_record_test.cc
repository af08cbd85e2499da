#include "wire/mad/path_record.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::wire {
namespace {

/// Written by hand from IBTA vol 1 §15.2.5.16.
constexpr auto kGolden = std::to_array<std::uint8_t>({
    0x00, 0x00, 0x00, 0x00, 0x01, 0x06, 0x12, 0x34,  // ServiceID
    0xFE, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // DGID
    0x00, 0x02, 0xC9, 0x03, 0x00, 0x01, 0x02, 0x03,  //
    0xFE, 0x80, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // SGID
    0x00, 0x02, 0xC9, 0x03, 0x00, 0x01, 0x02, 0x04,  //
    0x00, 0x12, 0x00, 0x34,                          // DLID, SLID
    0x83, 0x45, 0x67, 0x40,                          // RawTraffic, FlowLabel 0x34567, HopLimit
    0x12, 0x81, 0x80, 0x01,                          // TClass; Reversible 1, NumbPath 1; P_Key
    0xAB, 0xC5, 0x84, 0x87,  // QoSClass 0xABC, SL 5; exactly 2,048; exactly 7
    0x92, 0x03, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,  // exactly 18; Preference 3
});

TEST(PathRecord, IsItsGoldenBytes) {  // T-PACK-2, with Bth.PacksAsCaptured and Grh.IsItsGoldenBytes
  PathRecord path{
      .dgid = Gid{0xFE80'0000'0000'0000, Guid{0x0002'C903'0001'0203}},
      .sgid = Gid{0xFE80'0000'0000'0000, Guid{0x0002'C903'0001'0204}},
      .dlid = Lid{0x12},
      .slid = Lid{0x34},
      .raw_traffic = true,
      .flow_label = 0x34567,
      .hop_limit = 64,
      .tclass = 0x12,
      .reversible = true,
      .path_count = 1,
      .pkey = PKey{0x8001},
      .qos_class = 0xABC,
      .sl = ServiceLevel{5},
      .mtu_selector = Selector::Exactly,
      .mtu = 4,
      .rate_selector = Selector::Exactly,
      .rate = 7,
      .packet_life_time_selector = Selector::Exactly,
      .packet_life_time = 18,
      .preference = 3,
  };
  path.set_service_id(0x0106'1234);
  std::array<std::byte, kGolden.size()> golden{};
  std::ranges::transform(kGolden, golden.begin(),
                         [](std::uint8_t octet) { return std::byte{octet}; });
  EXPECT_EQ(pack(path), golden);
  EXPECT_EQ(unpack<PathRecord>(golden), path);
}

}  // namespace
}  // namespace weft::wire
