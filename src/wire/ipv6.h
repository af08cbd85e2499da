#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

/// IPv6 header (RFC 8200 §3).
struct Ipv6 {
  static constexpr std::string_view kName = "IPv6";

  std::uint8_t version{6};
  std::uint8_t traffic_class{};
  std::uint32_t flow_label{};      // 20 bits
  std::uint16_t payload_length{};  // bytes after this header
  std::uint8_t next_header{17};
  std::uint8_t hop_limit{64};
  std::array<std::byte, 16> source{};
  std::array<std::byte, 16> destination{};
  bool operator==(const Ipv6&) const = default;

  // clang-format off
  using Wire = Layout<40,
      Field<"Version", 4, &Ipv6::version>,
      Field<"TrafficClass", 8, &Ipv6::traffic_class>,
      Field<"FlowLabel", 20, &Ipv6::flow_label>,
      Field<"PayloadLength", 16, &Ipv6::payload_length>,
      Field<"NextHeader", 8, &Ipv6::next_header>,
      Field<"HopLimit", 8, &Ipv6::hop_limit>,
      Octets<"Source", 16, &Ipv6::source>,
      Octets<"Destination", 16, &Ipv6::destination>>;
  // clang-format on
};

}  // namespace weft::wire
