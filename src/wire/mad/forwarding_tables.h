#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"
#include "wire/layout_array.h"

/// Forwarding tables of a switch, in blocks.
namespace weft::wire {

inline constexpr PortNumber kNoForwardingPort{0xFF};  ///< packets to this LID are discarded
inline constexpr std::size_t kLinearBlockLids = 64;
inline constexpr std::size_t kMulticastBlockLids = 32;

/// A block of the linear forwarding table (IBTA vol 1 §14.2.5.10): the egress ports of 64 LIDs,
/// starting at 64 * block number.
struct LinearForwardingTable {
  static constexpr std::string_view kName = "LinearForwardingTable";

  std::array<PortNumber, 64> ports{};
  bool operator==(const LinearForwardingTable&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Numbers<"Port", 8, 64, &LinearForwardingTable::ports>>;
  // clang-format on
};

/// An entry of the random forwarding table.
struct RandomForwardingEntry {
  static constexpr std::string_view kName = "RandomForwardingEntry";

  Lid lid{};
  bool valid{};
  std::uint8_t lmc{};
  PortNumber port{};
  bool operator==(const RandomForwardingEntry&) const = default;

  // clang-format off
  using Wire = Layout<4,
      Field<"LID", 16, &RandomForwardingEntry::lid>,
      Field<"Valid", 1, &RandomForwardingEntry::valid>,
      Field<"LMC", 3, &RandomForwardingEntry::lmc>,
      Reserved<4>,
      Field<"Port", 8, &RandomForwardingEntry::port>>;
  // clang-format on
};

/// A block of the random forwarding table (IBTA vol 1 §14.2.5.11).
struct RandomForwardingTable {
  static constexpr std::string_view kName = "RandomForwardingTable";

  std::array<RandomForwardingEntry, 16> entries{};
  bool operator==(const RandomForwardingTable&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Structures<16, &RandomForwardingTable::entries>>;
  // clang-format on
};

/// A block of the multicast forwarding table (IBTA vol 1 §14.2.5.12): for each of 32 MLIDs a mask
/// of 16 ports. AttributeModifier: position (16 ports each) in bits 31 to 28, block number in bits
/// 8 to 0.
struct MulticastForwardingTable {
  static constexpr std::string_view kName = "MulticastForwardingTable";

  std::array<std::uint16_t, 32> port_masks{};  ///< bit n: port 16 * position + n
  bool operator==(const MulticastForwardingTable&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Numbers<"PortMask", 16, 32, &MulticastForwardingTable::port_masks>>;
  // clang-format on
};

}  // namespace weft::wire
