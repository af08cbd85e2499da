#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <tuple>

#include "wire/crc.h"
#include "wire/encodings.h"
#include "wire/ib_packet.h"
#include "wire/transport_headers.h"

namespace weft::wire {
namespace {

using AllTransportTypes = ::testing::Types<Lrh, Grh, Bth, Deth, Rdeth, Xrceth, Reth, AtomicEth,
                                           Aeth, AtomicAckEth, ImmDt, Ieth>;

template <class T>
class WireStructure : public ::testing::Test {};
TYPED_TEST_SUITE(WireStructure, AllTransportTypes);

TYPED_TEST(WireStructure, RoundTrips) {  // T-PACK-1, R-PACK-3
  Random random{1};
  for (int i = 0; i < 1000; ++i) {
    const auto value = arbitrary<TypeParam>(random);
    const auto bytes = pack(value);
    EXPECT_EQ(unpack<TypeParam>(bytes), value);
  }
}

TYPED_TEST(WireStructure, SendsReservedBitsAsZeroAndIgnoresThemOnReceipt) {  // R-PACK-2
  std::array<std::byte, kSizeOf<TypeParam>> ones{};
  ones.fill(std::byte{0xFF});
  const auto value = unpack<TypeParam>(ones);
  const auto packed = pack(value);
  std::size_t named_bits = 0;
  struct Count {
    std::size_t& bits;
    void number(std::string_view, unsigned width, std::uint64_t) { bits += width; }
    void octets(std::string_view, std::span<const std::byte> octets) { bits += octets.size() * 8; }
  };
  visit(value, Count{named_bits});
  std::size_t set_bits = 0;
  for (const std::byte octet : packed) {
    set_bits += static_cast<std::size_t>(std::popcount(std::to_integer<unsigned>(octet)));
  }
  EXPECT_EQ(set_bits, named_bits);
}

TYPED_TEST(WireStructure, RefusesTooFewBytes) {
  const std::array<std::byte, kSizeOf<TypeParam>> bytes{};
  EXPECT_TRUE(parse<TypeParam>(bytes).has_value());
  EXPECT_FALSE(parse<TypeParam>(std::span{bytes}.first(bytes.size() - 1)).has_value());
}

struct Wide {
  std::array<std::byte, 16> octets{};
  std::uint8_t lead{};
};
static_assert(
    Layout<17, Field<"Lead", 8, &Wide::lead>, Octets<"Octets", 16, &Wide::octets>>::is_aligned());
static_assert(!Layout<17, Field<"Lead", 4, &Wide::lead>, Octets<"Octets", 16, &Wide::octets>,
                      Reserved<4>>::is_aligned());
static_assert(!Layout<18, Field<"Lead", 8, &Wide::lead>,
                      Octets<"Octets", 16, &Wide::octets>>::tiles());  // T-PACK-3

TEST(Bth, PacksAsCaptured) {  // T-PACK-2
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
  constexpr auto kBytes = pack(kBth);
  static_assert(kBytes[0] == std::byte{0x0A});
  static_assert(kBytes[1] == std::byte{0x60});
  static_assert(unpack<Bth>(kBytes) == kBth);
}

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string{hex.substr(i, 2)}, nullptr, 16)));
  }
  return bytes;
}

// SEED-INVENTORY 32.5: RC RDMA WRITE Only, 14 bytes of payload.
constexpr std::string_view kSample =
    "7012375C000E17D20A2024870087B1B3000DEC2A01710A1C015D400238F27A050000000EBB884D85FD5CFBA4728BC0"
    "690ED40000"
    "9625B75A45FA";

TEST(IbPacket, DissectsTheSpecificationsSampleAndMakesTheSameBytes) {
  const std::vector<std::byte> sample = from_hex(kSample);
  const auto packet = parse_ib_packet(sample, CrcCheck::Verify);
  ASSERT_TRUE(packet) << packet.error().reason;
  EXPECT_EQ(packet->transport.bth.opcode, Opcode::RcRdmaWriteOnly);
  EXPECT_EQ(packet->transport.reth.dma_length, 14U);
  EXPECT_EQ(packet->payload.size(), 14U);
  std::vector<std::byte> bytes;
  serialise(*packet, bytes);
  EXPECT_EQ(bytes, sample);
}

TEST(IbPacket, FindsEveryFlippedBit) {
  const std::vector<std::byte> sample = from_hex(kSample);
  for (std::size_t bit = 0; bit < sample.size() * 8; ++bit) {
    std::vector<std::byte> damaged = sample;
    damaged[bit / 8] ^= static_cast<std::byte>(0x80U >> bit % 8);
    EXPECT_FALSE(parse_ib_packet(damaged, CrcCheck::Verify)) << "bit " << bit;
  }
}

TEST(IbPacket, RoundTripsEveryOpcodeWithAndWithoutGrh) {
  Random random{3};
  std::vector<std::byte> bytes;
  for (const OpcodeInfo& info : opcode_table()) {
    for (const bool global : {false, true}) {
      std::vector<std::byte> payload(info.payload == PayloadRule::None ? 0 : 1 + random.below(256));
      std::ranges::generate(payload, [&] { return static_cast<std::byte>(random()); });
      IbPacket packet;
      packet.lrh = arbitrary<Lrh>(random);
      packet.lrh.link_version = 0;
      if (global) {
        packet.grh = arbitrary<Grh>(random);
        packet.grh->ip_version = 6;
        packet.grh->next_header = 0x1B;
      }
      packet.transport.bth = arbitrary<Bth>(random);
      packet.transport.bth.opcode = info.opcode;
      packet.transport.bth.transport_version = 0;
      packet.transport.reth = arbitrary<Reth>(random);
      packet.payload = payload;
      serialise(packet, bytes);
      const auto again = parse_ib_packet(bytes, CrcCheck::Verify);
      ASSERT_TRUE(again) << info.name << ": " << again.error().reason;
      EXPECT_EQ(again->transport.bth.psn, packet.transport.bth.psn);
      EXPECT_TRUE(std::ranges::equal(again->payload, payload));
      std::vector<std::byte> twice;
      serialise(*again, twice);
      EXPECT_EQ(twice, bytes);
    }
  }
}

TEST(IbPacket, SurvivesAnyBytes) {
  Random random{4};
  for (int i = 0; i < 20'000; ++i) {
    std::vector<std::byte> bytes(random.below(128));
    std::ranges::generate(bytes, [&] { return static_cast<std::byte>(random()); });
    if (bytes.size() >= 8) {  // let it get past the length
      bytes[5] = static_cast<std::byte>((bytes.size() - 2) / 4);
      bytes[4] = std::byte{0};
    }
    EXPECT_FALSE(parse_ib_packet(bytes, CrcCheck::Verify));
  }
}

TEST(OpcodeTable, NamesEachOpcodeAsItsPartsDo) {
  for (const OpcodeInfo& info : opcode_table()) {
    EXPECT_EQ(opcode_info(info.opcode), &info);
    EXPECT_EQ(static_cast<unsigned>(info.opcode) >> 5, static_cast<unsigned>(info.transport));
    if (info.operation != Operation::CongestionNotification) {
      EXPECT_EQ(make_opcode(info.transport, info.operation, info.position,
                            info.headers.has(ExtensionHeader::Immediate),
                            info.headers.has(ExtensionHeader::Ieth)),
                info.opcode)
          << info.name;
    }
  }
  EXPECT_EQ(opcode_info(static_cast<Opcode>(0x15)), nullptr);
  EXPECT_EQ(opcode_info(static_cast<Opcode>(0x40)), nullptr);
}

TEST(Credits, AreTheLargestCodeNotAboveTheFreeWqes) {  // T-RVT-3
  for (std::uint32_t free = 0; free <= 40'000; ++free) {
    std::uint8_t best = 0;
    for (std::uint8_t code = 0; code < kCreditTable.size(); ++code) {
      best = kCreditTable[code] <= free ? code : best;
    }
    ASSERT_EQ(credit_code(free), best);
  }
}

}  // namespace
}  // namespace weft::wire
