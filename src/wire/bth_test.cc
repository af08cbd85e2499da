#include "wire/bth.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::wire {
namespace {

[[nodiscard]] constexpr std::array<std::byte, 12> octets(std::array<std::uint8_t, 12> values) {
  std::array<std::byte, 12> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes.at(i) = std::byte{values.at(i)};
  }
  return bytes;
}

TEST(Bth, PacksAsCaptured) {  // part of T-PACK-2
  constexpr Bth kBth{.opcode = Opcode::RcRdmaWriteOnly,
                     .solicited = false,
                     .migrated = true,
                     .pad_count = 2,
                     .transport_version = 0,
                     .pkey = PKey{0x2487},
                     .fecn = false,
                     .becn = false,
                     .dest_qp = Qpn{0x87B1B3},
                     .ack_request = false,
                     .psn = Psn{0x0DEC2A}};
  constexpr auto kGolden =
      octets({0x0A, 0x60, 0x24, 0x87, 0x00, 0x87, 0xB1, 0xB3, 0x00, 0x0D, 0xEC, 0x2A});
  EXPECT_EQ(pack(kBth), kGolden);
  EXPECT_EQ(unpack<Bth>(kGolden), kBth);
}

/// Those which are zero above, each alone: written by hand from IBTA vol 1 §9.2.
TEST(Bth, HasEachSmallFieldInItsPlace) {  // part of T-PACK-2
  constexpr auto kNothing = octets({0x64, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
  Bth plain;
  plain.opcode = Opcode::UdSendOnly;
  ASSERT_EQ(pack(plain), kNothing);
  const auto expect_bit = [&](std::size_t octet, unsigned value, auto change) {
    Bth bth = plain;
    change(bth);
    auto golden = kNothing;
    golden.at(octet) = static_cast<std::byte>(value);
    EXPECT_EQ(pack(bth), golden) << octet;
    EXPECT_EQ(unpack<Bth>(golden), bth) << octet;
  };
  expect_bit(1, 0x80, [](Bth& bth) { bth.solicited = true; });
  expect_bit(1, 0x40, [](Bth& bth) { bth.migrated = true; });
  expect_bit(1, 0x30, [](Bth& bth) { bth.pad_count = 3; });
  expect_bit(1, 0x0F, [](Bth& bth) { bth.transport_version = 15; });
  expect_bit(4, 0x80, [](Bth& bth) { bth.fecn = true; });
  expect_bit(4, 0x40, [](Bth& bth) { bth.becn = true; });
  expect_bit(8, 0x80, [](Bth& bth) { bth.ack_request = true; });
}

}  // namespace
}  // namespace weft::wire
