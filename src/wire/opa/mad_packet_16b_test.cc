#include "wire/opa/mad_packet_16b.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include "base/random.h"
#include "wire/address_text.h"
#include "wire/opa/vema_mad.h"

namespace weft::wire {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> some_mad() {
  Random random{7};
  std::vector<std::byte> mad(kOpaMadBytes);
  std::ranges::generate(mad, [&] { return static_cast<std::byte>(random()); });
  return mad;
}

const Opa16bHeader kHeader{.slid = Lid{0xABCDEF}, .dlid = Lid{0x654321}, .pkey = PKey{0x7FFF}};

TEST(Opa16bManagement, LiesAsTheTablesSay) {
  const auto packet = to_opa_mad_packet(
      kHeader, {.dest_qp = Qpn{0x010203}, .source_qp = Qpn{0xA0B0C0}}, some_mad());
  // 16 + 8 + 2048 + 5 octets, and 3 of padding: 260 units, so h0 = 0|104|BCDEF; h1 =
  // 1|10|0|00|54321, h2 = 7FFF|6|A|08.
  ASSERT_EQ(packet.size(), 260U * 8);
  EXPECT_EQ(hex_text(ByteSpan{packet}.first(24)),
            "efcd4b10214305c0086aff7f00000000"
            "0001020300a0b0c0");
  EXPECT_EQ(std::to_integer<int>(packet.back()), 3);
  EXPECT_TRUE(std::ranges::equal(ByteSpan{packet}.subspan(24, kOpaMadBytes), some_mad()));
}

TEST(Opa16bManagement, RoundTrips) {
  const Opa16bManagementHeader qps{.dest_qp = Qpn{1}, .source_qp = Qpn{0x80'0001}};
  const auto packet = to_opa_mad_packet(kHeader, qps, some_mad());
  const auto parsed = parse_opa_mad(packet);
  ASSERT_TRUE(parsed) << parsed.error().reason;
  EXPECT_EQ(parsed->header.slid, kHeader.slid);
  EXPECT_EQ(parsed->header.l4_type, kOpaL4Fm);
  EXPECT_EQ(parsed->management, qps);
  EXPECT_TRUE(std::ranges::equal(parsed->mad, some_mad()));
  EXPECT_TRUE(parsed->has_valid_icrc);
  auto damaged = packet;
  damaged[17] ^= std::byte{1};  // of the QP
  EXPECT_FALSE(parse_opa_mad(damaged).value().has_valid_icrc);
}

TEST(Opa16bManagement, ThatIsNoneIsRefusedWithTheReason) {
  const auto refusal = [](const std::vector<std::byte>& bytes) {
    const auto parsed = parse_opa_mad(bytes);
    return parsed ? std::string{"taken"} : parsed.error().reason;
  };
  const std::vector<std::byte> content(2055);
  EXPECT_THAT(refusal(to_opa_16b({.l4_type = kOpaL4Fm}, content)), HasSubstr("2055 bytes"));
  EXPECT_THAT(refusal(to_opa_16b({.l4_type = kOpaL4Fm}, {})), HasSubstr("0 bytes"));
  EXPECT_THAT(refusal(to_opa_packet({}, content)), HasSubstr("not that of management"));
  const auto packet = to_opa_mad_packet({}, {}, some_mad());
  EXPECT_THAT(refusal({packet.begin(), packet.end() - 8}), HasSubstr("units of 8"));
}

}  // namespace
}  // namespace weft::wire
