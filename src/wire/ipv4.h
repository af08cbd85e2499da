#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

/// IPv4 header without options (RFC 791 §3.1).
struct Ipv4 {
  static constexpr std::string_view kName = "IPv4";

  std::uint8_t version{4};
  std::uint8_t header_dwords{5};
  std::uint8_t type_of_service{};
  std::uint16_t total_length{};  // bytes, header included
  std::uint16_t identification{};
  bool reserved_flag{};
  bool dont_fragment{};
  bool more_fragments{};
  std::uint16_t fragment_offset{};
  std::uint8_t time_to_live{64};
  std::uint8_t protocol{17};
  std::uint16_t checksum{};
  std::array<std::byte, 4> source{};
  std::array<std::byte, 4> destination{};
  bool operator==(const Ipv4&) const = default;

  // clang-format off
  using Wire = Layout<20,
      Field<"Version", 4, &Ipv4::version>,
      Field<"IHL", 4, &Ipv4::header_dwords>,
      Field<"ToS", 8, &Ipv4::type_of_service>,
      Field<"TotalLength", 16, &Ipv4::total_length>,
      Field<"Identification", 16, &Ipv4::identification>,
      Field<"Reserved", 1, &Ipv4::reserved_flag>,
      Field<"DF", 1, &Ipv4::dont_fragment>,
      Field<"MF", 1, &Ipv4::more_fragments>,
      Field<"FragmentOffset", 13, &Ipv4::fragment_offset>,
      Field<"TTL", 8, &Ipv4::time_to_live>,
      Field<"Protocol", 8, &Ipv4::protocol>,
      Field<"Checksum", 16, &Ipv4::checksum>,
      Octets<"Source", 4, &Ipv4::source>,
      Octets<"Destination", 4, &Ipv4::destination>>;
  // clang-format on
};

}  // namespace weft::wire
