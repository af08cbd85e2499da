#include "ulp/ipoib/too_big.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string_view>
#include <utility>

#include "base/internet_checksum.h"
#include "base/ip_address.h"
#include "ulp/ipoib/listening.h"
#include "wire/ipoib/message.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"
#include "wire/layout.h"

namespace weft::ipoib {
namespace {

constexpr std::uint8_t kIcmp = 1;
constexpr std::uint8_t kIcmpv6 = 58;

/// Destination Unreachable, "fragmentation needed and DF set", with the MTU (RFC 1191 §4).
struct IcmpTooBig {
  [[maybe_unused]] static constexpr std::string_view kName = "ICMP fragmentation needed";
  std::uint8_t type{3};
  std::uint8_t code{4};
  std::uint16_t checksum{};
  std::uint16_t mtu{};
  // clang-format off
  using Wire = wire::Layout<8,
      wire::Field<"Type", 8, &IcmpTooBig::type>,
      wire::Field<"Code", 8, &IcmpTooBig::code>,
      wire::Field<"Checksum", 16, &IcmpTooBig::checksum>,
      wire::Reserved<16>,
      wire::Field<"NextHopMTU", 16, &IcmpTooBig::mtu>>;
  // clang-format on
};

/// Packet Too Big (RFC 4443 §3.2).
struct Icmpv6TooBig {
  [[maybe_unused]] static constexpr std::string_view kName = "ICMPv6 packet too big";
  std::uint8_t type{2};
  std::uint8_t code{};
  std::uint16_t checksum{};
  std::uint32_t mtu{};
  // clang-format off
  using Wire = wire::Layout<8,
      wire::Field<"Type", 8, &Icmpv6TooBig::type>,
      wire::Field<"Code", 8, &Icmpv6TooBig::code>,
      wire::Field<"Checksum", 16, &Icmpv6TooBig::checksum>,
      wire::Field<"MTU", 32, &Icmpv6TooBig::mtu>>;
  // clang-format on
};

/// An ICMP message other than a query; so that errors do not answer errors (RFC 1122 §3.2.2).
[[nodiscard]] bool is_icmp_error(ByteSpan icmp) {
  constexpr std::array<std::uint8_t, 6> kErrors{3, 4, 5, 11, 12, 31};
  return icmp.empty() ||
         std::ranges::find(kErrors, std::to_integer<std::uint8_t>(icmp[0])) != kErrors.end();
}
/// RFC 4443 §2.1: the upper half of the types is informational.
[[nodiscard]] bool is_icmpv6_error(ByteSpan icmp) {
  return icmp.empty() || (icmp[0] & std::byte{0x80}) == std::byte{};
}

template <class Header, class Message>
std::vector<std::byte> put_together(const Header& header, const Message& message, ByteSpan quoted) {
  const auto head = wire::pack(header);
  const auto icmp = wire::pack(message);
  std::vector<std::byte> packet{head.begin(), head.end()};
  packet.insert(packet.end(), icmp.begin(), icmp.end());
  packet.insert(packet.end(), quoted.begin(), quoted.end());
  return packet;
}

void put_checksum(std::vector<std::byte>& packet, std::size_t at, std::uint16_t checksum) {
  packet[at] = static_cast<std::byte>(checksum >> 8);
  packet[at + 1] = static_cast<std::byte>(checksum);
}

std::optional<std::vector<std::byte>> too_big_ipv4(ByteSpan packet, std::uint32_t mtu) {
  constexpr std::size_t kMostBytes = 576;  // RFC 1812 §4.3.2.3
  constexpr std::size_t kChecksumAt = 10;
  const auto original = wire::parse<wire::Ipv4>(packet);
  const std::size_t header_bytes = std::size_t{original->header_dwords} * 4;
  if (!original->dont_fragment || original->fragment_offset != 0 ||
      header_bytes < wire::kSizeOf<wire::Ipv4> || header_bytes > packet.size() ||
      (original->protocol == kIcmp && is_icmp_error(packet.subspan(header_bytes)))) {
    return std::nullopt;
  }
  constexpr std::size_t kOwn = wire::kSizeOf<wire::Ipv4> + wire::kSizeOf<IcmpTooBig>;
  const ByteSpan quoted = packet.first(std::min(packet.size(), kMostBytes - kOwn));
  const wire::Ipv4 header{.total_length = static_cast<std::uint16_t>(kOwn + quoted.size()),
                          .protocol = kIcmp,
                          .source = original->destination,
                          .destination = original->source};
  const IcmpTooBig message{.mtu = static_cast<std::uint16_t>(std::min<std::uint32_t>(
                               mtu, std::numeric_limits<std::uint16_t>::max()))};
  auto made = put_together(header, message, quoted);
  const ByteSpan whole{made};
  const std::uint16_t of_header = internet_checksum(whole.first<wire::kSizeOf<wire::Ipv4>>());
  const std::uint16_t of_icmp = internet_checksum(whole.subspan(wire::kSizeOf<wire::Ipv4>));
  put_checksum(made, kChecksumAt, of_header);
  put_checksum(made, wire::kSizeOf<wire::Ipv4> + 2, of_icmp);
  return made;
}

std::optional<std::vector<std::byte>> too_big_ipv6(ByteSpan packet, std::uint32_t mtu) {
  constexpr std::size_t kMostBytes = 1280;  // RFC 4443 §2.4: the smallest MTU
  constexpr std::size_t kHead = wire::kSizeOf<wire::Ipv6>;
  const auto original = wire::parse<wire::Ipv6>(packet);
  if (original->next_header == kIcmpv6 && is_icmpv6_error(packet.subspan(kHead))) {
    return std::nullopt;
  }
  constexpr std::size_t kOwn = kHead + wire::kSizeOf<Icmpv6TooBig>;
  const ByteSpan quoted = packet.first(std::min(packet.size(), kMostBytes - kOwn));
  const wire::Ipv6 header{
      .payload_length = static_cast<std::uint16_t>(kOwn - kHead + quoted.size()),
      .next_header = kIcmpv6,
      .source = original->destination,
      .destination = original->source};
  auto made = put_together(header, Icmpv6TooBig{.mtu = mtu}, quoted);
  put_checksum(made, kHead + 2,
               wire::icmpv6_checksum(IpAddress{header.source}, IpAddress{header.destination},
                                     ByteSpan{made}.subspan(kHead)));
  return made;
}

}  // namespace

std::optional<std::vector<std::byte>> make_too_big(ByteSpan packet, std::uint32_t mtu) {
  const auto ends = ends_of(packet);
  if (!ends || ends->source.is_unspecified() || ends->source.is_multicast()) {
    return std::nullopt;
  }
  if (ends->source.is_v6()) {
    // A multicast destination has an answer too: path MTUs of groups are found by it (RFC 4443
    // §2.4 e.3). Its own address cannot be the source, and this interface's is not known here.
    return ends->destination.is_multicast() ? std::nullopt : too_big_ipv6(packet, mtu);
  }
  const bool is_to_many =
      ends->destination.is_multicast() || ends->destination.is_limited_broadcast();
  return is_to_many ? std::nullopt : too_big_ipv4(packet, mtu);
}

}  // namespace weft::ipoib
