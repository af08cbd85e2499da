#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"

namespace weft::wire {

/// Link next header: the kind of header after the LRH (§7.7.5).
enum class LinkNextHeader : std::uint8_t { Raw = 0, RawIpv6 = 1, Local = 2, Global = 3 };

/// Local route header (IBTA vol 1 §7.7).
struct Lrh {
  static constexpr std::string_view kName = "LRH";

  VirtualLane vl;
  std::uint8_t link_version{};
  ServiceLevel sl;
  LinkNextHeader lnh{LinkNextHeader::Local};
  Lid dlid;
  std::uint16_t packet_length{};  // dwords, LRH through ICRC
  Lid slid;
  bool operator==(const Lrh&) const = default;

  // clang-format off
  using Wire = Layout<8,
      Field<"VL", 4, &Lrh::vl>,
      Field<"LVer", 4, &Lrh::link_version>,
      Field<"SL", 4, &Lrh::sl>,
      Reserved<2>,
      Field<"LNH", 2, &Lrh::lnh>,
      Field<"DLID", 16, &Lrh::dlid>,
      Reserved<5>,
      Field<"PktLen", 11, &Lrh::packet_length>,
      Field<"SLID", 16, &Lrh::slid>>;
  // clang-format on
};

}  // namespace weft::wire
