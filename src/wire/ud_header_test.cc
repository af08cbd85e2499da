#include "wire/ud_header.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/random.h"
#include "wire/roce_packet.h"

namespace weft::wire {
namespace {

constexpr std::array<std::size_t, 10> kPayloads{0, 1, 2, 3, 4, 5, 6, 7, 2048, 4096};

UdHeaderParts parts_of(unsigned flags, unsigned ip_version) {
  return {.lrh = (flags & 1U) != 0,
          .ethernet = (flags & 2U) != 0,
          .vlan = (flags & 4U) != 0,
          .grh = (flags & 8U) != 0,
          .ip_version = ip_version,
          .udp = (flags & 16U) != 0,
          .immediate = (flags & 32U) != 0};
}

std::vector<std::byte> packed(const UdHeader& header) {
  std::vector<std::byte> bytes(packed_bytes(header));
  EXPECT_EQ(pack(header, bytes), bytes.size());
  return bytes;
}

/// Sets the fields that make_ud_header() leaves to its caller.
void fill(UdHeader& header, Random& random) {
  if (header.lrh) {
    header.lrh->vl = VirtualLane{static_cast<std::uint8_t>(random.below(16))};
    header.lrh->sl = ServiceLevel{static_cast<std::uint8_t>(random.below(16))};
    header.lrh->dlid = Lid{static_cast<std::uint32_t>(random.below(0x1'0000))};
    header.lrh->slid = Lid{static_cast<std::uint32_t>(random.below(0x1'0000))};
  }
  header.bth.dest_qp = Qpn{static_cast<std::uint32_t>(random.below(1U << 24))};
  header.bth.psn = Psn{static_cast<std::uint32_t>(random.below(1U << 24))};
  header.bth.pkey = PKey{static_cast<std::uint16_t>(random())};
  header.bth.solicited = random.chance(1, 2);
  header.deth.qkey = QKey{static_cast<std::uint32_t>(random())};
  header.deth.src_qp = Qpn{static_cast<std::uint32_t>(random.below(1U << 24))};
  if (header.immediate) {
    header.immediate->immediate = static_cast<std::uint32_t>(random());
  }
}

/// Big-endian numbers at byte positions: a dissector that shares nothing with the layouts
/// (IBTA vol 1 §7.7, §8.3, §9.2).
class Bytes {
 public:
  explicit Bytes(const std::vector<std::byte>& bytes) : bytes_(bytes) {}
  [[nodiscard]] std::uint32_t at(std::size_t first, std::size_t count) const {
    std::uint32_t value = 0;
    for (std::size_t i = first; i < first + count; ++i) {
      value = value << 8 | std::to_integer<std::uint32_t>(bytes_.at(i));
    }
    return value;
  }

 private:
  const std::vector<std::byte>& bytes_;
};

void check_with_byte_positions(const UdHeader& header, std::size_t payload) {  // T-UD-2
  const std::vector<std::byte> wire = packed(header);
  const Bytes bytes{wire};
  const std::size_t padded = payload + (4 - payload % 4) % 4;
  const std::size_t all = wire.size() + padded + 4;  // ICRC
  std::size_t at = 0;
  if (header.lrh) {
    EXPECT_EQ(bytes.at(0, 1), std::uint32_t{header.lrh->vl.value()} << 4U);
    EXPECT_EQ(bytes.at(1, 1), std::uint32_t{header.lrh->sl.value()} << 4U | (header.grh ? 3U : 2U));
    EXPECT_EQ(bytes.at(2, 2), header.lrh->dlid.value());
    EXPECT_EQ(bytes.at(6, 2), header.lrh->slid.value());
    at = 8;
  }
  if (header.ethernet) {
    at += 14;
  }
  if (header.vlan) {
    EXPECT_TRUE(!header.ethernet || bytes.at(at - 2, 2) == 0x8100);
    at += 4;
  }
  if (header.lrh && !header.ethernet && !header.vlan) {
    EXPECT_EQ(bytes.at(4, 2), all / 4) << "PktLen";
  }
  const std::uint32_t ether_type = header.ethernet || header.vlan ? bytes.at(at - 2, 2) : 0;
  if (header.grh) {
    EXPECT_EQ(bytes.at(at, 1) >> 4U, 6U);
    EXPECT_EQ(bytes.at(at + 4, 2), all - at - 40) << "PayLen";
    EXPECT_EQ(bytes.at(at + 6, 1), header.udp ? 17U : 0x1BU) << "NxtHdr";
    at += 40;
  }
  if (header.ipv4) {
    EXPECT_EQ(bytes.at(at, 1), 0x45U);
    EXPECT_EQ(bytes.at(at + 2, 2), all - at) << "total length";
    EXPECT_TRUE(ether_type == 0 || ether_type == 0x0800);
    std::uint32_t sum = 0;
    for (std::size_t i = at; i < at + 20; i += 2) {
      sum += bytes.at(i, 2);
    }
    EXPECT_EQ((sum & 0xFFFFU) + (sum >> 16U), 0xFFFFU) << "checksum (R-UD-4)";
    at += 20;
  }
  if (header.udp) {
    EXPECT_EQ(bytes.at(at + 2, 2), 4791U);
    EXPECT_EQ(bytes.at(at + 4, 2), all - at) << "UDP length";
    at += 8;
  }
  EXPECT_EQ(bytes.at(at, 1), header.immediate ? 0x65U : 0x64U);
  EXPECT_EQ(bytes.at(at + 1, 1), (header.bth.solicited ? 0x80U : 0U) | (4 - payload % 4) % 4 << 4U);
  EXPECT_EQ(bytes.at(at + 2, 2), header.bth.pkey.value());
  EXPECT_EQ(bytes.at(at + 4, 4), header.bth.dest_qp.value());
  EXPECT_EQ(bytes.at(at + 8, 4), header.bth.psn.value());
  EXPECT_EQ(bytes.at(at + 12, 4), header.deth.qkey.value());
  EXPECT_EQ(bytes.at(at + 16, 4), header.deth.src_qp.value());
  if (header.immediate) {
    EXPECT_EQ(bytes.at(at + 20, 4), header.immediate->immediate);
  }
}

TEST(UdHeader, IsConsistentWithAnyParts) {  // T-UD-1, T-UD-2, R-UD-1..R-UD-3
  Random random{1};
  for (const unsigned ip_version : {0U, 4U, 5U, 6U}) {
    for (unsigned flags = 0; flags < 64; ++flags) {
      for (const std::size_t payload : kPayloads) {
        const UdHeaderParts parts = parts_of(flags, ip_version);
        SCOPED_TRACE(fmt::format("flags {:#x} IP {} payload {}", flags, ip_version, payload));
        auto header = make_ud_header(payload, parts);
        if (ip_version == 5 || (parts.udp && ip_version == 0)) {
          ASSERT_FALSE(header);
          EXPECT_EQ(header.error().code, ErrorCode::InvalidArgument);
          continue;
        }
        ASSERT_TRUE(header);
        EXPECT_EQ(header->lrh.has_value(), parts.lrh);
        EXPECT_EQ(header->ethernet.has_value(), parts.ethernet);
        EXPECT_EQ(header->vlan.has_value(), parts.vlan);
        EXPECT_EQ(header->grh.has_value(), ip_version == 6 || (parts.grh && ip_version == 0));
        EXPECT_EQ(header->ipv4.has_value(), ip_version == 4);
        EXPECT_EQ(header->udp.has_value(), parts.udp);
        fill(*header, random);
        check_with_byte_positions(*header, payload);
      }
    }
  }
}

TEST(UdHeader, BeginningWithALinkHeaderUnpacksToTheSame) {  // T-UD-1
  Random random{2};
  for (const bool grh : {false, true}) {
    for (const bool immediate : {false, true}) {
      for (const std::size_t payload : kPayloads) {
        auto header = *make_ud_header(payload, {.lrh = true, .grh = grh, .immediate = immediate});
        fill(header, random);
        const auto bytes = packed(header);
        const auto back = unpack_ud_header(bytes);
        ASSERT_TRUE(back) << back.error().reason;
        EXPECT_EQ(*back, header);
        for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
          ASSERT_FALSE(unpack_ud_header(ByteSpan{bytes}.first(cut))) << cut << " bytes";
        }
      }
    }
  }
}

TEST(UdHeader, BeginningWithEthernetUnpacksToTheSame) {
  Random random{3};
  for (const unsigned ip_version : {0U, 4U, 6U}) {
    for (const bool vlan : {false, true}) {
      auto header = *make_ud_header(100, {.ethernet = true,
                                          .vlan = vlan,
                                          .grh = ip_version == 0,
                                          .ip_version = ip_version,
                                          .udp = ip_version != 0});
      fill(header, random);
      if (header.ipv4) {
        header.ipv4->checksum = ipv4_checksum(*header.ipv4);
      }
      const auto bytes = packed(header);
      const auto back = unpack_ud_frame(bytes);
      ASSERT_TRUE(back) << back.error().reason;
      EXPECT_EQ(*back, header);
      for (std::size_t cut = 0; cut < bytes.size(); ++cut) {
        ASSERT_FALSE(unpack_ud_frame(ByteSpan{bytes}.first(cut))) << cut << " bytes";
      }
    }
  }
}

TEST(UdHeader, RefusesOtherVersionsNextHeadersAndOpcodes) {  // T-UD-3, R-UD-3
  const auto good = packed(*make_ud_header(64, {.lrh = true, .grh = true}));
  ASSERT_TRUE(unpack_ud_header(good));
  const auto refused = [&good](std::size_t byte, unsigned bit) {
    auto bytes = good;
    bytes[byte] ^= static_cast<std::byte>(1U << bit);
    const auto header = unpack_ud_header(bytes);
    return !header && header.error().code == ErrorCode::InvalidArgument;
  };
  for (unsigned bit = 0; bit < 4; ++bit) {
    EXPECT_TRUE(refused(0, bit)) << "LRH:LVer";
    EXPECT_TRUE(refused(8, 4 + bit)) << "GRH:IPVer";
    EXPECT_TRUE(refused(49, bit)) << "BTH:TVer";
  }
  EXPECT_TRUE(refused(1, 1)) << "LRH:LNH";
  for (unsigned bit = 0; bit < 8; ++bit) {
    EXPECT_TRUE(refused(14, bit)) << "GRH:NxtHdr";
    EXPECT_TRUE(refused(48, bit) || bit == 0) << "BTH:OpCode; bit 0 makes it one with immediate";
  }
}

}  // namespace
}  // namespace weft::wire
