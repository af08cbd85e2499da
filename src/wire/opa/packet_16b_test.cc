#include "wire/opa/packet_16b.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "wire/address_text.h"

namespace weft::wire {
namespace {

using ::testing::HasSubstr;

/// A second decoder, which shares nothing with the first: the header's five words, little-endian,
/// by the bit numbers of the format's table.
struct Decoded {
  std::uint32_t slid{}, dlid{};
  unsigned length{}, becn{}, fecn{}, sc{}, rc{}, l2{}, lt{}, l4{}, pkey{}, entropy{}, age{}, vesw{};
  std::vector<std::uint8_t> frame;
};

std::optional<Decoded> decode(const std::vector<std::byte>& packet) {
  if (packet.size() < 25 || packet.size() % 8 != 0) {
    return std::nullopt;
  }
  std::vector<std::uint32_t> h(5);
  for (unsigned i = 0; i < 20; ++i) {
    h[i / 4] |= std::to_integer<std::uint32_t>(packet[i]) << (8 * (i % 4));
  }
  const auto bits = [&](unsigned word, unsigned high, unsigned low) {
    return (h[word] >> low) & ((std::uint64_t{1} << (high - low + 1)) - 1);
  };
  Decoded out;
  out.slid = static_cast<std::uint32_t>(bits(0, 19, 0) | bits(2, 11, 8) << 20);
  out.dlid = static_cast<std::uint32_t>(bits(1, 19, 0) | bits(2, 15, 12) << 20);
  out.length = static_cast<unsigned>(bits(0, 30, 20));
  out.becn = static_cast<unsigned>(bits(0, 31, 31));
  out.sc = static_cast<unsigned>(bits(1, 24, 20));
  out.rc = static_cast<unsigned>(bits(1, 27, 25));
  out.fecn = static_cast<unsigned>(bits(1, 28, 28));
  out.l2 = static_cast<unsigned>(bits(1, 30, 29));
  out.lt = static_cast<unsigned>(bits(1, 31, 31));
  out.l4 = static_cast<unsigned>(bits(2, 7, 0));
  out.pkey = static_cast<unsigned>(bits(2, 31, 16));
  out.entropy = static_cast<unsigned>(bits(3, 15, 0));
  out.age = static_cast<unsigned>(bits(3, 23, 16));
  out.vesw = static_cast<unsigned>(bits(4, 31, 16));
  const unsigned pad = std::to_integer<unsigned>(packet.back()) & 7;
  if (out.length * 8 != packet.size() || packet.size() < 25 + pad) {
    return std::nullopt;
  }
  for (std::size_t i = 20; i < packet.size() - 5 - pad; ++i) {
    out.frame.push_back(std::to_integer<std::uint8_t>(packet[i]));
  }
  return out;
}

std::vector<std::byte> random_bytes(Random& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& octet : bytes) {
    octet = static_cast<std::byte>(random());
  }
  return bytes;
}

Opa16bHeader random_header(Random& random) {
  Opa16bHeader header = arbitrary<Opa16bHeader>(random);
  header.l2_type = kOpaL2Type16b;
  header.is_last_flit_type = true;
  header.l4_type = kOpaL4Ethernet;
  return header;
}

TEST(Opa16b, LiesAsTheTablesSay) {
  const Opa16bHeader header{.becn = true,
                            .length_units = 0x123,
                            .slid = Lid{0xABCDEF},
                            .fecn = true,
                            .routing_control = 5,
                            .service_channel = 0x13,
                            .dlid = Lid{0x654321},
                            .pkey = PKey{0x8001},
                            .age = 0x77,
                            .entropy = 0xBEEF,
                            .vesw_id = 0x0FED};
  // h0 = 1|123|BCDEF, h1 = 1|10|1|101|10011|54321, h2 = 8001|6|A|78, h3 = 00|77|BEEF,
  // h4 = 0FED|0000; each word with its low octet first.
  EXPECT_EQ(hex_text(pack(header)), "efcd3b92214335db786a0180efbe77000000ed0f");
}

TEST(Opa16b, RoundTrips) {
  Random random{1};
  for (int i = 0; i < 1000; ++i) {
    const auto header = arbitrary<Opa16bHeader>(random);
    ASSERT_EQ(unpack<Opa16bHeader>(pack(header)), header);
  }
}

TEST(Opa16b, AllBitsButReservedOnesAreOfAField) {
  std::array<std::byte, kSizeOf<Opa16bHeader>> ones{};
  ones.fill(std::byte{0xFF});
  EXPECT_EQ(hex_text(pack(unpack<Opa16bHeader>(ones))), "ffffffffffffffffffffffffffffff000000ffff");
}

TEST(OpaEthernetPacket, IsReadAlikeByADecoderFromTheTables) {
  Random random{2};
  for (std::size_t bytes = 0; bytes < 300; ++bytes) {
    const Opa16bHeader header = random_header(random);
    const auto frame = random_bytes(random, bytes);
    const auto packet = to_opa_packet(header, frame);
    const auto decoded = decode(packet);
    ASSERT_TRUE(decoded) << bytes;
    EXPECT_EQ(decoded->length * 8, packet.size());
    EXPECT_EQ(decoded->slid, header.slid.value());
    EXPECT_EQ(decoded->dlid, header.dlid.value());
    EXPECT_EQ(decoded->sc, header.service_channel);
    EXPECT_EQ(decoded->rc, header.routing_control);
    EXPECT_EQ(decoded->becn, header.becn ? 1U : 0U);
    EXPECT_EQ(decoded->fecn, header.fecn ? 1U : 0U);
    EXPECT_EQ(decoded->l2, 2U);
    EXPECT_EQ(decoded->lt, 1U);
    EXPECT_EQ(decoded->l4, 0x78U);
    EXPECT_EQ(decoded->pkey, header.pkey.value());
    EXPECT_EQ(decoded->entropy, header.entropy);
    EXPECT_EQ(decoded->age, header.age);
    EXPECT_EQ(decoded->vesw, header.vesw_id);
    ASSERT_EQ(decoded->frame.size(), frame.size());
    for (std::size_t i = 0; i < frame.size(); ++i) {
      ASSERT_EQ(std::byte{decoded->frame[i]}, frame[i]);
    }
    const auto parsed = parse_opa_ethernet(packet);
    ASSERT_TRUE(parsed) << parsed.error().reason;
    EXPECT_TRUE(std::ranges::equal(parsed->frame, frame));
    EXPECT_TRUE(parsed->has_valid_icrc);
  }
}

TEST(OpaEthernetPacket, CarriesTheLongestFrame) {
  const std::vector<std::byte> frame(kMaxOpaFrameBytes);
  const auto packet = to_opa_packet({}, frame);
  EXPECT_EQ(packet.size(), kMaxOpaUnits * 8);
  EXPECT_EQ(parse_opa_ethernet(packet).value().frame.size(), frame.size());
}

TEST(OpaEthernetPacket, KnowsDamageButNotWhatSwitchesMayChange) {
  Random random{3};
  const auto frame = random_bytes(random, 77);
  const auto packet = to_opa_packet(random_header(random), frame);
  for (std::size_t at = kOpaLinkHeaderBytes; at < packet.size() - 1; ++at) {
    auto damaged = packet;
    damaged[at] ^= std::byte{1};
    EXPECT_FALSE(parse_opa_ethernet(damaged).value().has_valid_icrc) << at;
  }
  auto marked = packet;
  marked[3] ^= std::byte{0x80};   // BECN
  marked[7] ^= std::byte{0x10};   // FECN
  marked[14] ^= std::byte{0xFF};  // age
  EXPECT_TRUE(parse_opa_ethernet(marked).value().has_valid_icrc);
}

TEST(OpaEthernetPacket, ThatIsNoneIsRefusedWithTheReason) {
  const std::vector<std::byte> frame(60);
  const auto packet = to_opa_packet({}, frame);
  const auto refusal = [](std::vector<std::byte> bytes) {
    const auto parsed = parse_opa_ethernet(bytes);
    return parsed ? std::string{"taken"} : parsed.error().reason;
  };
  auto other_l2 = packet;
  other_l2[7] = std::byte{0xA0};
  EXPECT_THAT(refusal(other_l2), HasSubstr("not 16B"));
  auto other_l4 = packet;
  other_l4[8] = std::byte{kOpaL4IbLocal};
  EXPECT_THAT(refusal(other_l4), HasSubstr("not Ethernet"));
  auto longer = packet;
  longer.resize(longer.size() + 8);
  EXPECT_THAT(refusal(longer), HasSubstr("units of 8"));
  for (std::size_t bytes = 0; bytes < packet.size(); ++bytes) {
    EXPECT_NE(refusal({packet.begin(), packet.begin() + static_cast<std::ptrdiff_t>(bytes)}),
              "taken");
  }
  auto padded = to_opa_packet({}, {});  // 32 octets, of which 7 are padding
  EXPECT_EQ(padded.size(), 32U);
  Opa16bHeader runt{.length_units = 3};
  std::vector<std::byte> too_short(24);
  const auto head = pack(runt);
  std::copy(head.begin(), head.end(), too_short.begin());
  EXPECT_THAT(refusal(too_short), HasSubstr("no room"));
}

TEST(Opa16b, OfAnyL4TypeHasContentBehindItsLinkHeader) {
  Random random{4};
  for (std::size_t bytes = 4; bytes < 40; ++bytes) {
    const auto content = random_bytes(random, bytes);
    const auto packet = to_opa_16b({.dlid = Lid{0x10'0001}, .l4_type = kOpaL4IbLocal}, content);
    EXPECT_EQ(packet.size() % 8, 0U);
    const auto parsed = parse_opa_16b(packet);
    ASSERT_TRUE(parsed) << parsed.error().reason;
    EXPECT_TRUE(std::ranges::equal(parsed->content, content));
    EXPECT_EQ(parsed->header.vesw_id, 0);
    EXPECT_EQ(parsed->header.dlid, Lid{0x10'0001});
    EXPECT_TRUE(parsed->has_valid_icrc());
  }
}

TEST(OpaEthernetPacket, SaysItsVirtualSwitch) {
  EXPECT_EQ(vesw_id_of(to_opa_packet({.vesw_id = 0x123}, {})), 0x123);
  EXPECT_EQ(vesw_id_of(std::vector<std::byte>(19)), std::nullopt);
}

}  // namespace
}  // namespace weft::wire
