#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/layout.h"
#include "wire/layout_array.h"

/// Port tables in blocks; the AttributeModifier selects the block.
namespace weft::wire {

/// A block of GUIDInfo (IBTA vol 1 §14.2.5.5): 8 GUIDs, starting at 8 * block number.
struct GuidInfo {
  static constexpr std::string_view kName = "GUIDInfo";

  std::array<Guid, 8> guids{};
  bool operator==(const GuidInfo&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Numbers<"GUID", 64, 8, &GuidInfo::guids>>;
  // clang-format on
};

/// A block of the P_Key table (IBTA vol 1 §14.2.5.7).
struct PKeyTable {
  static constexpr std::string_view kName = "P_KeyTable";

  std::array<PKey, 32> pkeys{};
  bool operator==(const PKeyTable&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Numbers<"P_Key", 16, 32, &PKeyTable::pkeys>>;
  // clang-format on
};

/// SLtoVLMappingTable (IBTA vol 1 §14.2.5.8): the VL for each SL, per pair of ingress and egress
/// port.
struct SlToVlMappingTable {
  static constexpr std::string_view kName = "SLtoVLMappingTable";

  std::array<VirtualLane, 16> vls{};
  bool operator==(const SlToVlMappingTable&) const = default;

  // clang-format off
  using Wire = Layout<8,
      Numbers<"VL", 4, 16, &SlToVlMappingTable::vls>>;
  // clang-format on
};

/// One entry of a VL arbitration table.
struct VlArbitrationEntry {
  static constexpr std::string_view kName = "VLArbitrationEntry";

  VirtualLane vl{};
  std::uint8_t weight{};  ///< units of 64 bytes; 0: entry is skipped
  bool operator==(const VlArbitrationEntry&) const = default;

  // clang-format off
  using Wire = Layout<2,
      Reserved<4>,
      Field<"VL", 4, &VlArbitrationEntry::vl>,
      Field<"Weight", 8, &VlArbitrationEntry::weight>>;
  // clang-format on
};

/// A half of the low- or high-priority VL arbitration table (IBTA vol 1 §14.2.5.9).
struct VlArbitrationTable {
  static constexpr std::string_view kName = "VLArbitrationTable";

  std::array<VlArbitrationEntry, 32> entries{};
  bool operator==(const VlArbitrationTable&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Structures<32, &VlArbitrationTable::entries>>;
  // clang-format on
};

}  // namespace weft::wire
