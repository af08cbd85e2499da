#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

/// UDP header (RFC 768). RoCE v2 has destination port 4791 (IBTA annex A17 §17.3.2).
struct Udp {
  static constexpr std::string_view kName = "UDP";

  std::uint16_t source_port{};
  std::uint16_t destination_port{4791};
  std::uint16_t length{};    // bytes, header included
  std::uint16_t checksum{};  // 0: none
  bool operator==(const Udp&) const = default;

  // clang-format off
  using Wire = Layout<8,
      Field<"SourcePort", 16, &Udp::source_port>,
      Field<"DestinationPort", 16, &Udp::destination_port>,
      Field<"Length", 16, &Udp::length>,
      Field<"Checksum", 16, &Udp::checksum>>;
  // clang-format on
};

}  // namespace weft::wire
