#include "wire/ipoib/message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/random.h"
#include "wire/address_text.h"

namespace weft::wire {
namespace {

using ::testing::HasSubstr;

IpAddress ip(std::string_view text) { return parse_ip_address(text).value(); }

std::vector<std::byte> bytes_of_hex(std::string_view text) {
  const auto digit = [](char c) {
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(digit(text[i]) << 4 | digit(text[i + 1])));
  }
  return bytes;
}

const IpoibHardwareAddress kH1{
    .qpn = Qpn{0x100},
      .gid = Gid{kDefaultGidPrefix, Guid{0x0257'4610'0001'0001}}
};
const IpoibHardwareAddress kH2{
    .qpn = Qpn{0x100},
      .gid = Gid{kDefaultGidPrefix, Guid{0x0257'4610'0002'0001}}
};

const ArpMessage kRequest{.operation = ArpOperation::Request,
                          .sender_hardware = kH2,
                          .sender = IpAddress::v4(0x7F4D'0002),
                          .target = IpAddress::v4(0x7F4D'0001)};
// Put together by hand from the pictures of RFC 4391 §6, §9.1.1 and §9.2.
constexpr std::string_view kRequestBytes =
    "08060000"  // ARP
    "0020080014040001"
    "00000100fe8000000000000002574610000200017f4d0002"
    "00000000000000000000000000000000000000007f4d0001";

NeighborMessage solicitation() {
  return {.type = NeighborMessageType::Solicitation,
          .source = ip("fd77::2"),
          .destination = ip("ff02::1:ff00:1"),
          .target = ip("fd77::1"),
          .hardware = kH2};
}
NeighborMessage advertisement() {
  IpoibHardwareAddress hardware = kH1;
  hardware.flags = IpoibFlag::ReliableConnected;
  return {.type = NeighborMessageType::Advertisement,
          .source = ip("fd77::1"),
          .destination = ip("fd77::2"),
          .target = ip("fd77::1"),
          .flags = Flags{NeighborFlag::Solicited} | NeighborFlag::Override,
          .hardware = hardware};
}
// Made by a script of its own, checksums included.
constexpr std::string_view kSolicitationBytes =
    "86dd00006000000000303afffd770000000000000000000000000002ff020000"
    "0000000000000001ff000001870036ae00000000fd7700000000000000000000"
    "000000010103000000000100fe800000000000000257461000020001";
constexpr std::string_view kAdvertisementBytes =
    "86dd00006000000000303afffd770000000000000000000000000001fd770000"
    "0000000000000000000000028800553b60000000fd7700000000000000000000"
    "000000010203000080000100fe800000000000000257461000010001";

TEST(ArpOverIpoib, IsAsTheRfcDrawsIt) {  // RFC 4391 §9.2
  EXPECT_EQ(hex_text(to_payload(kRequest)), kRequestBytes);
  const auto parsed = parse_ipoib(bytes_of_hex(kRequestBytes));
  ASSERT_TRUE(parsed) << parsed.error().reason;
  EXPECT_EQ(std::get<ArpMessage>(*parsed), kRequest);
}

TEST(NeighborDiscoveryOverIpoib, IsAsTheRfcsDrawIt) {  // RFC 4391 §9.3, RFC 4861 §4.3, §4.4
  EXPECT_EQ(hex_text(to_payload(solicitation())), kSolicitationBytes);
  EXPECT_EQ(hex_text(to_payload(advertisement())), kAdvertisementBytes);
  EXPECT_EQ(std::get<NeighborMessage>(parse_ipoib(bytes_of_hex(kSolicitationBytes)).value()),
            solicitation());
  EXPECT_EQ(std::get<NeighborMessage>(parse_ipoib(bytes_of_hex(kAdvertisementBytes)).value()),
            advertisement());
}

TEST(IpoibMessage, RoundTrips) {
  Random random{1};
  const auto hardware = [&] { return arbitrary<IpoibHardwareAddress>(random); };
  for (int i = 0; i < 1000; ++i) {
    const ArpMessage arp{
        .operation = random.chance(1, 2) ? ArpOperation::Request : ArpOperation::Reply,
        .sender_hardware = hardware(),
        .sender = IpAddress::v4(static_cast<std::uint32_t>(random())),
        .target_hardware = hardware(),
        .target = IpAddress::v4(static_cast<std::uint32_t>(random()))};
    EXPECT_EQ(std::get<ArpMessage>(parse_ipoib(to_payload(arp)).value()), arp);
    const NeighborMessage neighbor{.type = NeighborMessageType::Advertisement,
                                   .source = IpAddress::v6(random(), random()),
                                   .destination = IpAddress::v6(random() >> 8, random()),
                                   .target = IpAddress::v6(random() >> 8, random()),
                                   .flags = Flags<NeighborFlag>::from_bits(random() & 7),
                                   .hardware = hardware()};
    EXPECT_EQ(std::get<NeighborMessage>(parse_ipoib(to_payload(neighbor)).value()), neighbor);
  }
}

TEST(IpoibMessage, SaysWhatElseCame) {
  EXPECT_EQ(std::get<OtherIpoibMessage>(parse_ipoib(bytes_of_hex("08000000450000")).value()),
            OtherIpoibMessage{0x0800});
  std::vector<std::byte> echo = bytes_of_hex(kSolicitationBytes);
  echo[44] = std::byte{128};  // the ICMPv6 type
  EXPECT_EQ(std::get<OtherIpoibMessage>(parse_ipoib(echo).value()), OtherIpoibMessage{0x86DD});
}

TEST(IpoibMessage, RefusesWhatIsCutOff) {
  for (const std::string_view whole : {kRequestBytes, kSolicitationBytes, kAdvertisementBytes}) {
    const std::vector<std::byte> bytes = bytes_of_hex(whole);
    for (std::size_t length = 0; length < bytes.size(); ++length) {
      EXPECT_FALSE(parse_ipoib(ByteSpan{bytes}.first(length))) << length;
    }
  }
}

std::string refusal_of(std::string_view hex, std::size_t at, unsigned value) {
  std::vector<std::byte> bytes = bytes_of_hex(hex);
  bytes[at] = static_cast<std::byte>(value);
  const auto parsed = parse_ipoib(bytes);
  return parsed ? "taken" : parsed.error().reason;
}

TEST(ArpOverIpoib, OfAnotherLinkOrProtocolIsRefused) {
  EXPECT_THAT(refusal_of(kRequestBytes, 5, 1), HasSubstr("ARP of hardware 1"));
  EXPECT_THAT(refusal_of(kRequestBytes, 6, 9), HasSubstr("protocol 0x0900"));
  EXPECT_THAT(refusal_of(kRequestBytes, 8, 6), HasSubstr("6 bytes"));
  EXPECT_THAT(refusal_of(kRequestBytes, 9, 16), HasSubstr("16 bytes"));
  EXPECT_THAT(refusal_of(kRequestBytes, 11, 3), HasSubstr("neither request nor reply"));
}

TEST(NeighborDiscoveryOverIpoib, ThatIsNotValidIsRefused) {  // RFC 4861 §7.1
  EXPECT_THAT(refusal_of(kSolicitationBytes, 11, 254), HasSubstr("hop limit 254"));
  EXPECT_THAT(refusal_of(kSolicitationBytes, 45, 1), HasSubstr("code 1"));
  EXPECT_THAT(refusal_of(kSolicitationBytes, 91, 2), HasSubstr("wrong checksum"));
  EXPECT_THAT(refusal_of(kSolicitationBytes, 4, 0x40), HasSubstr("IP version 4"));
  const auto refuse = [](NeighborMessage message, const std::function<void(NeighborMessage&)>& to) {
    to(message);
    const auto parsed = parse_ipoib(to_payload(message));
    return parsed ? "taken" : parsed.error().reason;
  };
  EXPECT_THAT(refuse(solicitation(), [](auto& m) { m.target = ip("ff02::1"); }),
              HasSubstr("is a multicast address"));
  EXPECT_THAT(refuse(solicitation(), [](auto& m) { m.source = ip("::"); }),
              HasSubstr("with a link-layer address"));
  EXPECT_THAT(refuse(solicitation(),
                     [](auto& m) {
                       m.source = ip("::");
                       m.hardware.reset();
                       m.destination = ip("fd77::1");
                     }),
              HasSubstr("a probe for duplicates to fd77::1"));
  EXPECT_THAT(refuse(advertisement(), [](auto& m) { m.destination = ip("ff02::1"); }),
              HasSubstr("says it was solicited"));
}

TEST(NeighborDiscoveryOverIpoib, SkipsOptionsThatItDoesNotKnow) {  // RFC 4861 §4.6
  const auto with_options = [](std::string_view options) {
    NeighborMessage message = solicitation();
    message.hardware.reset();
    std::vector<std::byte> bytes = to_payload(message);
    const std::vector<std::byte> added = bytes_of_hex(options);
    bytes.insert(bytes.end(), added.begin(), added.end());
    bytes[9] = static_cast<std::byte>(24 + added.size());  // the payload length
    bytes[46] = bytes[47] = std::byte{};
    const std::uint16_t checksum =
        icmpv6_checksum(message.source, message.destination, ByteSpan{bytes}.subspan(44));
    bytes[46] = static_cast<std::byte>(checksum >> 8);
    bytes[47] = static_cast<std::byte>(checksum);
    return parse_ipoib(bytes);
  };
  const std::string own =
      hex_text(pack(IpoibLinkLayerOption{.type = NeighborOption::SourceLinkLayer, .address = kH2}));
  const auto parsed = with_options("0e01000000000000" + own);
  ASSERT_TRUE(parsed) << parsed.error().reason;
  EXPECT_EQ(std::get<NeighborMessage>(*parsed).hardware, kH2);
  EXPECT_EQ(std::get<NeighborMessage>(with_options("0101000000000000").value()).hardware,
            std::nullopt);  // of another length: of another link
  EXPECT_THAT(with_options("0e00000000000000").error().reason, HasSubstr("an option of 0 bytes"));
  EXPECT_THAT(with_options("0e02000000000000").error().reason, HasSubstr("of which 8 are left"));
}

}  // namespace
}  // namespace weft::wire
