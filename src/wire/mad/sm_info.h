#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"

namespace weft::wire {

/// SM states (IBTA vol 1 §14.4.1).
enum class SmState : std::uint8_t { NotActive = 0, Discovering = 1, Standby = 2, Master = 3 };

/// Control requests of an SMInfo Set, in its AttributeModifier (IBTA vol 1 §14.4.1).
enum class SmInfoControl : std::uint32_t {
  Handover = 1,
  Acknowledge = 2,
  Disable = 3,
  Standby = 4,
  Discover = 5,
};

/// SMInfo (IBTA vol 1 §14.2.5.13).
struct SmInfo {
  static constexpr std::string_view kName = "SMInfo";

  Guid guid{};  ///< of the SM's port
  std::uint64_t sm_key{};
  std::uint32_t act_count{};
  std::uint8_t priority{};
  SmState state{};
  bool operator==(const SmInfo&) const = default;

  // clang-format off
  using Wire = Layout<21,
      Field<"GUID", 64, &SmInfo::guid>,
      Field<"SM_Key", 64, &SmInfo::sm_key>,
      Field<"ActCount", 32, &SmInfo::act_count>,
      Field<"Priority", 4, &SmInfo::priority>,
      Field<"SMState", 4, &SmInfo::state>>;
  // clang-format on
};

/// VendorDiag (IBTA vol 1 §14.2.5.14).
struct VendorDiag {
  static constexpr std::string_view kName = "VendorDiag";

  std::uint16_t next_index{};  ///< 0: last
  std::array<std::byte, 62> diag_data{};
  bool operator==(const VendorDiag&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Field<"NextIndex", 16, &VendorDiag::next_index>,
      Octets<"DiagData", 62, &VendorDiag::diag_data>>;
  // clang-format on
};

/// LedInfo (IBTA vol 1 §14.2.5.15).
struct LedInfo {
  static constexpr std::string_view kName = "LedInfo";

  bool led_mask{};
  bool operator==(const LedInfo&) const = default;

  // clang-format off
  using Wire = Layout<4,
      Field<"LedMask", 1, &LedInfo::led_mask>,
      Reserved<31>>;
  // clang-format on
};

}  // namespace weft::wire
