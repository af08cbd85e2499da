#pragma once

// TCP packets for tests.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/ip_address.h"
#include "base/random.h"
#include "ulp/offload/tcp_packet.h"
#include "wire/ipv4.h"
#include "wire/ipv6.h"

namespace weft::offload::testing {

struct TcpTexts {
  std::string_view from{"10.77.0.1"};
  std::string_view to{"10.77.0.2"};
};
inline constexpr TcpTexts kIpv4Ends{};
inline constexpr TcpTexts kIpv6Ends{.from = "fd77:1b::1", .to = "fd77:1b::2"};

[[nodiscard]] inline std::vector<std::byte> random_bytes(Random& random, std::size_t count) {
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(random.below(256));
  }
  return bytes;
}

/// With right checksums, an option of 12 octets as timestamps have, and `frame` before it.
[[nodiscard]] inline std::vector<std::byte> make_tcp(const TcpTexts& ends, wire::Tcp tcp,
                                                     std::span<const std::byte> data,
                                                     std::span<const std::byte> frame = {}) {
  constexpr std::size_t kOptionBytes = 12;
  const IpAddress from = parse_ip_address(ends.from).value();
  const IpAddress to = parse_ip_address(ends.to).value();
  std::vector<std::byte> packet(frame.begin(), frame.end());
  const auto append = [&](const auto& bytes) {
    packet.insert(packet.end(), bytes.begin(), bytes.end());
  };
  if (from.is_v6()) {
    append(wire::pack(wire::Ipv6{.next_header = wire::kProtocolTcp,
                                 .source = from.v6_octets(),
                                 .destination = to.v6_octets()}));
  } else {
    append(wire::pack(wire::Ipv4{.identification = 7,
                                 .dont_fragment = true,
                                 .protocol = wire::kProtocolTcp,
                                 .source = from.v4_octets(),
                                 .destination = to.v4_octets()}));
  }
  tcp.header_dwords = 8;
  append(wire::pack(tcp));
  append(std::vector<std::byte>(kOptionBytes, std::byte{1}));
  append(data);
  const auto at = parse_tcp(packet, frame.size());
  set_lengths(packet, *at, 7);
  set_tcp(packet, *at, tcp);
  return packet;
}

}  // namespace weft::offload::testing
