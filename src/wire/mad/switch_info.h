#pragma once

#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"

namespace weft::wire {

/// SwitchInfo (IBTA vol 1 §14.2.5.4).
struct SwitchInfo {
  static constexpr std::string_view kName = "SwitchInfo";

  std::uint16_t linear_fdb_cap{};  ///< entries, from LID 0
  std::uint16_t random_fdb_cap{};
  std::uint16_t multicast_fdb_cap{};  ///< entries, from LID 0xC000
  std::uint16_t linear_fdb_top{};     ///< last LID that is forwarded
  PortNumber default_port{};
  PortNumber default_multicast_primary_port{};
  PortNumber default_multicast_not_primary_port{};
  std::uint8_t lifetime_exponent{};
  bool port_state_change{};  ///< set by the switch; writing one clears it
  std::uint8_t optimized_sl_to_vl_mapping{};
  std::uint16_t lids_per_port{};
  std::uint16_t partition_enforcement_cap{};
  bool inbound_enforcement_cap{};
  bool outbound_enforcement_cap{};
  bool filter_raw_inbound_cap{};
  bool filter_raw_outbound_cap{};
  bool enhanced_port_0{};
  std::uint16_t multicast_fdb_top{};  ///< last MLID that is forwarded, or 0
  bool operator==(const SwitchInfo&) const = default;

  // clang-format off
  using Wire = Layout<20,
      Field<"LinearFDBCap", 16, &SwitchInfo::linear_fdb_cap>,
      Field<"RandomFDBCap", 16, &SwitchInfo::random_fdb_cap>,
      Field<"MulticastFDBCap", 16, &SwitchInfo::multicast_fdb_cap>,
      Field<"LinearFDBTop", 16, &SwitchInfo::linear_fdb_top>,
      Field<"DefaultPort", 8, &SwitchInfo::default_port>,
      Field<"DefaultMulticastPrimaryPort", 8, &SwitchInfo::default_multicast_primary_port>,
      Field<"DefaultMulticastNotPrimaryPort", 8, &SwitchInfo::default_multicast_not_primary_port>,
      Field<"LifeTimeValue", 5, &SwitchInfo::lifetime_exponent>,
      Field<"PortStateChange", 1, &SwitchInfo::port_state_change>,
      Field<"OptimizedSLtoVLMappingProgramming", 2, &SwitchInfo::optimized_sl_to_vl_mapping>,
      Field<"LIDsPerPort", 16, &SwitchInfo::lids_per_port>,
      Field<"PartitionEnforcementCap", 16, &SwitchInfo::partition_enforcement_cap>,
      Field<"InboundEnforcementCap", 1, &SwitchInfo::inbound_enforcement_cap>,
      Field<"OutboundEnforcementCap", 1, &SwitchInfo::outbound_enforcement_cap>,
      Field<"FilterRawInboundCap", 1, &SwitchInfo::filter_raw_inbound_cap>,
      Field<"FilterRawOutboundCap", 1, &SwitchInfo::filter_raw_outbound_cap>,
      Field<"EnhancedPort0", 1, &SwitchInfo::enhanced_port_0>,
      Reserved<11>,
      Field<"MulticastFDBTop", 16, &SwitchInfo::multicast_fdb_top>>;
  // clang-format on
};

}  // namespace weft::wire
