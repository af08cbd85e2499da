#include "wire/ib_packet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace weft::wire {
namespace {

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(std::stoi(std::string{hex.substr(i, 2)}, nullptr, 16)));
  }
  return bytes;
}

// RC RDMA WRITE Only, 14 bytes of payload.
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

TEST(IbPacket, RefusesWhatEndsWithItsGrh) {
  IbPacket packet;
  packet.transport.bth.opcode = Opcode::RcSendOnly;
  packet.grh = Grh{};
  std::vector<std::byte> bytes;
  serialise(packet, bytes);
  constexpr std::size_t kTotal = kSizeOf<Lrh> + kSizeOf<Grh>;
  bytes.resize(kTotal + 2);  // and a VCRC
  Lrh lrh = unpack<Lrh>(std::span{bytes}.first<kSizeOf<Lrh>>());
  lrh.packet_length = kTotal / 4;
  pack(lrh, std::span{bytes}.first<kSizeOf<Lrh>>());
  Grh grh = unpack<Grh>(std::span{bytes}.subspan<kSizeOf<Lrh>, kSizeOf<Grh>>());
  grh.payload_length = 0;
  pack(grh, std::span{bytes}.subspan<kSizeOf<Lrh>, kSizeOf<Grh>>());
  const auto refused = parse_ib_packet(bytes, CrcCheck::Skip);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().reason.find("after the GRH"), std::string::npos);
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

}  // namespace
}  // namespace weft::wire
