#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

/// VLAN tag behind EtherType 0x8100 (IEEE 802.1Q §9.6).
struct Vlan {
  static constexpr std::string_view kName = "VLAN";

  std::uint8_t priority{};
  bool drop_eligible{};
  std::uint16_t vlan_id{};  // 12 bits
  std::uint16_t ether_type{};
  bool operator==(const Vlan&) const = default;

  // clang-format off
  using Wire = Layout<4,
      Field<"PCP", 3, &Vlan::priority>,
      Field<"DEI", 1, &Vlan::drop_eligible>,
      Field<"VID", 12, &Vlan::vlan_id>,
      Field<"EtherType", 16, &Vlan::ether_type>>;
  // clang-format on
};

}  // namespace weft::wire
