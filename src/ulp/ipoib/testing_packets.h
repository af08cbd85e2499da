#pragma once

// IP packets for tests.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace weft::ipoib::testing {

[[nodiscard]] inline IpAddress ip(std::string_view text) { return parse_ip_address(text).value(); }

/// An IPv4 or IPv6 packet of this length whose last four octets are `number`.
[[nodiscard]] inline std::vector<std::byte> make_packet(const IpAddress& from, const IpAddress& to,
                                                        std::uint32_t number = 0,
                                                        std::size_t bytes = 100,
                                                        bool dont_fragment = true) {
  std::vector<std::byte> packet(bytes);
  const std::span<std::byte> whole{packet};
  if (from.is_v4()) {
    wire::pack(wire::Ipv4{.total_length = static_cast<std::uint16_t>(bytes),
                          .dont_fragment = dont_fragment,
                          .source = from.v4_octets(),
                          .destination = to.v4_octets()},
               whole.first<wire::kSizeOf<wire::Ipv4>>());
  } else {
    wire::pack(wire::Ipv6{.payload_length = static_cast<std::uint16_t>(bytes - 40),
                          .source = from.v6_octets(),
                          .destination = to.v6_octets()},
               whole.first<wire::kSizeOf<wire::Ipv6>>());
  }
  for (std::size_t i = 0; i < 4; ++i) {
    packet[bytes - 1 - i] = static_cast<std::byte>(number >> (8 * i));
  }
  return packet;
}

[[nodiscard]] inline std::uint32_t number_of(std::span<const std::byte> packet) {
  std::uint32_t number = 0;
  for (const std::byte octet : packet.last(4)) {
    number = number << 8 | std::to_integer<std::uint32_t>(octet);
  }
  return number;
}

[[nodiscard]] inline std::vector<std::byte> from_hex(std::string_view text) {
  const auto digit = [](char c) {
    return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
  };
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    bytes.push_back(static_cast<std::byte>(digit(text[i]) << 4 | digit(text[i + 1])));
  }
  return bytes;
}

/// An IGMP message to a group, in IPv4 with the router alert option.
[[nodiscard]] inline std::vector<std::byte> igmp(std::string_view message) {
  auto packet = from_hex(
      "460000000000000001020000"
      "0a000001"
      "e0000016"
      "94040000");
  const auto body = from_hex(message);
  packet.insert(packet.end(), body.begin(), body.end());
  packet[2] = static_cast<std::byte>(packet.size() >> 8);
  packet[3] = static_cast<std::byte>(packet.size());
  return packet;
}

/// An MLD message, in IPv6 with a hop-by-hop header.
[[nodiscard]] inline std::vector<std::byte> mld(std::string_view message) {
  auto packet = from_hex(
      "6000000000000001"
      "fe800000000000000000000000000001"
      "ff020000000000000000000000000016"
      "3a00050200000100");
  const auto body = from_hex(message);
  packet.insert(packet.end(), body.begin(), body.end());
  const std::size_t payload = packet.size() - 40;
  packet[4] = static_cast<std::byte>(payload >> 8);
  packet[5] = static_cast<std::byte>(payload);
  return packet;
}

}  // namespace weft::ipoib::testing
