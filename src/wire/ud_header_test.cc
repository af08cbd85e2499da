#include "wire/ud_header.h"

#include <gtest/gtest.h>

#include <array>
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

template <std::size_t kOctets>
void fill(std::array<std::byte, kOctets>& octets, Random& random) {
  for (std::byte& octet : octets) {
    octet = static_cast<std::byte>(random());
  }
}

[[nodiscard]] std::uint32_t bits(unsigned count, Random& random) {
  return static_cast<std::uint32_t>(random.below(std::uint64_t{1} << count));
}

void fill_link(UdHeader& header, Random& random) {
  if (header.lrh) {
    header.lrh->vl = VirtualLane{static_cast<std::uint8_t>(bits(4, random))};
    header.lrh->sl = ServiceLevel{static_cast<std::uint8_t>(bits(4, random))};
    header.lrh->dlid = Lid{bits(16, random)};
    header.lrh->slid = Lid{bits(16, random)};
  }
  if (header.ethernet) {
    fill(header.ethernet->destination, random);
    fill(header.ethernet->source, random);
  }
  if (header.vlan) {
    header.vlan->priority = static_cast<std::uint8_t>(bits(3, random));
    header.vlan->drop_eligible = random.chance(1, 2);
    header.vlan->vlan_id = static_cast<std::uint16_t>(bits(12, random));
  }
}

void fill_network(UdHeader& header, Random& random) {
  if (header.grh) {
    header.grh->traffic_class = static_cast<std::uint8_t>(random());
    header.grh->flow_label = bits(20, random);
    header.grh->hop_limit = static_cast<std::uint8_t>(random());
    header.grh->sgid = Gid{random(), Guid{random()}};
    header.grh->dgid = Gid{random(), Guid{random()}};
  }
  if (header.ipv4) {
    header.ipv4->type_of_service = static_cast<std::uint8_t>(random());
    header.ipv4->identification = static_cast<std::uint16_t>(random());
    header.ipv4->reserved_flag = random.chance(1, 2);
    header.ipv4->dont_fragment = random.chance(1, 2);
    header.ipv4->more_fragments = random.chance(1, 2);
    header.ipv4->fragment_offset = static_cast<std::uint16_t>(bits(13, random));
    header.ipv4->time_to_live = static_cast<std::uint8_t>(random());
    fill(header.ipv4->source, random);
    fill(header.ipv4->destination, random);
  }
  if (header.udp) {
    header.udp->source_port = static_cast<std::uint16_t>(random());
    header.udp->checksum = static_cast<std::uint16_t>(random());
  }
}

/// Sets the fields that make_ud_header() leaves to its caller.
void fill(UdHeader& header, Random& random) {
  fill_link(header, random);
  fill_network(header, random);
  header.bth.dest_qp = Qpn{bits(24, random)};
  header.bth.psn = Psn{bits(24, random)};
  header.bth.pkey = PKey{static_cast<std::uint16_t>(random())};
  header.bth.solicited = random.chance(1, 2);
  header.bth.migrated = random.chance(1, 2);
  header.bth.fecn = random.chance(1, 2);
  header.bth.becn = random.chance(1, 2);
  header.bth.ack_request = random.chance(1, 2);
  header.deth.qkey = QKey{bits(32, random)};
  header.deth.src_qp = Qpn{bits(24, random)};
  if (header.immediate) {
    header.immediate->immediate = bits(32, random);
  }
}

/// A dissector that shares nothing with the layouts: big-endian numbers at byte positions, where
/// the headers begin that were asked for (IBTA vol 1 §7.7, §8.3, §9.2, IEEE 802.3 §3.2, 802.1Q
/// §9.6, RFC 791 §3.1, RFC 768).
class Dissector {
 public:
  Dissector(const std::vector<std::byte>& bytes, const UdHeaderParts& parts, std::size_t payload)
      : bytes_(bytes),
        parts_(parts),
        pad_((4 - payload % 4) % 4),
        all_(bytes.size() + payload + pad_ + 4) {}  // ICRC

  void check(const UdHeader& header) {
    check_link(header);
    check_network(header);
    check_transport(header);
    EXPECT_EQ(at_, bytes_.size());
  }

 private:
  [[nodiscard]] std::uint32_t at(std::size_t first, std::size_t count) const {
    std::uint32_t value = 0;
    for (std::size_t i = at_ + first; i < at_ + first + count; ++i) {
      value = value << 8 | std::to_integer<std::uint32_t>(bytes_.at(i));
    }
    return value;
  }
  [[nodiscard]] bool has_grh() const {
    return parts_.ip_version == 6 || (parts_.ip_version == 0 && parts_.grh);
  }
  /// From here to the end of the packet.
  [[nodiscard]] std::size_t left() const { return all_ - at_; }

  template <std::size_t kOctets>
  void expect_octets(std::size_t first, const std::array<std::byte, kOctets>& octets,
                     const char* name) const {
    for (std::size_t i = 0; i < kOctets; ++i) {
      EXPECT_EQ(bytes_.at(at_ + first + i), octets.at(i)) << name << ", octet " << i;
    }
  }

  void check_link(const UdHeader& header) {
    const std::size_t ethernet_bytes = (parts_.ethernet ? 14U : 0U) + (parts_.vlan ? 4U : 0U);
    const std::uint32_t inner = parts_.ip_version == 4   ? 0x0800U
                                : parts_.ip_version == 6 ? 0x86DDU
                                                         : 0x8915U;
    if (parts_.lrh) {
      EXPECT_EQ(at(0, 1), std::uint32_t{header.lrh->vl.value()} << 4U) << "VL, LVer";
      EXPECT_EQ(at(1, 1), std::uint32_t{header.lrh->sl.value()} << 4U | (has_grh() ? 3U : 2U))
          << "SL, LNH";
      EXPECT_EQ(at(2, 2), header.lrh->dlid.value());
      EXPECT_EQ(at(4, 2), (all_ - ethernet_bytes) / 4) << "PktLen";
      EXPECT_EQ(at(6, 2), header.lrh->slid.value());
      at_ += 8;
    }
    if (parts_.ethernet) {
      expect_octets(0, header.ethernet->destination, "destination MAC address");
      expect_octets(6, header.ethernet->source, "source MAC address");
      EXPECT_EQ(at(12, 2), parts_.vlan ? 0x8100U : inner) << "EtherType";
      at_ += 14;
    }
    if (parts_.vlan) {
      EXPECT_EQ(at(0, 2), std::uint32_t{header.vlan->priority} << 13U |
                              (header.vlan->drop_eligible ? 1U << 12U : 0U) | header.vlan->vlan_id)
          << "TCI";
      EXPECT_EQ(at(2, 2), inner) << "EtherType";
      at_ += 4;
    }
  }

  void check_network(const UdHeader& header) {
    if (has_grh()) {
      EXPECT_EQ(at(0, 4), 6U << 28U | std::uint32_t{header.grh->traffic_class} << 20U |
                              header.grh->flow_label)
          << "IPVer, TClass, FlowLabel";
      EXPECT_EQ(at(4, 2), left() - 40) << "PayLen";
      EXPECT_EQ(at(6, 1), parts_.udp ? 17U : 0x1BU) << "NxtHdr";
      EXPECT_EQ(at(7, 1), header.grh->hop_limit) << "HopLmt";
      expect_octets(8, header.grh->sgid.octets(), "SGID");
      expect_octets(24, header.grh->dgid.octets(), "DGID");
      at_ += 40;
    }
    if (parts_.ip_version == 4) {
      check_ipv4(*header.ipv4);
      at_ += 20;
    }
    if (parts_.udp) {
      EXPECT_EQ(at(0, 2), header.udp->source_port);
      EXPECT_EQ(at(2, 2), 4791U);
      EXPECT_EQ(at(4, 2), left()) << "UDP length";
      EXPECT_EQ(at(6, 2), header.udp->checksum);
      at_ += 8;
    }
  }

  void check_ipv4(const Ipv4& ip) const {
    EXPECT_EQ(at(0, 1), 0x45U);
    EXPECT_EQ(at(1, 1), ip.type_of_service);
    EXPECT_EQ(at(2, 2), left()) << "total length";
    EXPECT_EQ(at(4, 2), ip.identification);
    EXPECT_EQ(at(6, 2), (ip.reserved_flag ? 0x8000U : 0U) | (ip.dont_fragment ? 0x4000U : 0U) |
                            (ip.more_fragments ? 0x2000U : 0U) | ip.fragment_offset)
        << "flags, fragment offset";
    EXPECT_EQ(at(8, 1), ip.time_to_live);
    EXPECT_EQ(at(9, 1), 17U) << "protocol";
    std::uint32_t sum = 0;
    for (std::size_t i = 0; i < 20; i += 2) {
      sum += at(i, 2);
    }
    EXPECT_EQ((sum & 0xFFFFU) + (sum >> 16U), 0xFFFFU) << "checksum (R-UD-4)";
    expect_octets(12, ip.source, "source address");
    expect_octets(16, ip.destination, "destination address");
  }

  void check_transport(const UdHeader& header) {
    const Bth& bth = header.bth;
    EXPECT_EQ(at(0, 1), parts_.immediate ? 0x65U : 0x64U);
    EXPECT_EQ(at(1, 1), (bth.solicited ? 0x80U : 0U) | (bth.migrated ? 0x40U : 0U) | pad_ << 4U)
        << "SE, M, PadCnt, TVer";
    EXPECT_EQ(at(2, 2), bth.pkey.value());
    EXPECT_EQ(at(4, 1), (bth.fecn ? 0x80U : 0U) | (bth.becn ? 0x40U : 0U)) << "FECN, BECN";
    EXPECT_EQ(at(5, 3), bth.dest_qp.value());
    EXPECT_EQ(at(8, 1), bth.ack_request ? 0x80U : 0U) << "A";
    EXPECT_EQ(at(9, 3), bth.psn.value());
    EXPECT_EQ(at(12, 4), header.deth.qkey.value());
    EXPECT_EQ(at(16, 4), header.deth.src_qp.value());
    at_ += 20;
    if (parts_.immediate) {
      EXPECT_EQ(at(0, 4), header.immediate->immediate);
      at_ += 4;
    }
  }

  const std::vector<std::byte>& bytes_;
  UdHeaderParts parts_;
  std::size_t pad_;
  std::size_t all_;
  std::size_t at_{};  // where the header begins that is looked at
};

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
        const std::vector<std::byte> bytes = packed(*header);
        Dissector{bytes, parts, payload}.check(*header);  // T-UD-2
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
