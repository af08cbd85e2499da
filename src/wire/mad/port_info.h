#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/flags.h"
#include "base/identifiers.h"
#include "verbs/port_state.h"
#include "wire/encodings.h"
#include "wire/layout.h"

namespace weft::wire {

/// CapabilityMask of PortInfo (IBTA vol 1 §14.2.5.6).
enum class PortCapability : std::uint32_t {
  IsSm = 1U << 1,
  IsNoticeSupported = 1U << 2,
  IsTrapSupported = 1U << 3,
  IsOptionalIpdSupported = 1U << 4,
  IsAutomaticMigrationSupported = 1U << 5,
  IsSlMappingSupported = 1U << 6,
  IsMKeyNvram = 1U << 7,
  IsPKeyNvram = 1U << 8,
  IsLedInfoSupported = 1U << 9,
  IsSmDisabled = 1U << 10,
  IsSystemImageGuidSupported = 1U << 11,
  IsPKeySwitchExternalPortTrapSupported = 1U << 12,
  IsCableInfoSupported = 1U << 13,
  IsExtendedSpeedsSupported = 1U << 14,
  IsCapabilityMask2Supported = 1U << 15,
  IsCommunicationManagementSupported = 1U << 16,
  IsSnmpTunnelingSupported = 1U << 17,
  IsReinitSupported = 1U << 18,
  IsDeviceManagementSupported = 1U << 19,
  IsVendorClassSupported = 1U << 20,
  IsDrNoticeSupported = 1U << 21,
  IsCapabilityMaskNoticeSupported = 1U << 22,
  IsBootManagementSupported = 1U << 23,
  IsLinkRoundTripLatencySupported = 1U << 24,
  IsClientReregistrationSupported = 1U << 25,
  IsOtherLocalChangesNoticeSupported = 1U << 26,
  IsLinkSpeedWidthPairsTableSupported = 1U << 27,
  IsVendorSpecificMadsTableSupported = 1U << 28,
  IsMulticastPKeyTrapSuppressionSupported = 1U << 29,
  IsMulticastFdbTopSupported = 1U << 30,
  IsHierarchyInfoSupported = 1U << 31,
};
using PortCapabilities = Flags<PortCapability>;

/// CapabilityMask2, valid if PortCapability::IsCapabilityMask2Supported is set.
enum class PortCapability2 : std::uint16_t {
  IsSetNodeDescriptionSupported = 1U << 0,
  IsPortInfoExtendedSupported = 1U << 1,
  IsVirtualizationSupported = 1U << 2,
  IsSwitchPortStateTableSupported = 1U << 3,
  IsLinkWidth2xSupported = 1U << 4,
  IsLinkSpeedHdrSupported = 1U << 5,
  IsLinkSpeedNdrSupported = 1U << 10,
};
using PortCapabilities2 = Flags<PortCapability2>;

/// PortState (IBTA vol 1 §7.2, §14.2.5.6). 0 in a Set means no change.
enum class LinkState : std::uint8_t { NoChange = 0, Down = 1, Init = 2, Armed = 3, Active = 4 };

/// The port's state that a PortInfo tells or sets; none for NoChange and reserved values.
[[nodiscard]] constexpr std::optional<verbs::PortState> port_state_of(LinkState state) {
  return verbs::port_state_of(static_cast<std::uint32_t>(state));
}
[[nodiscard]] constexpr LinkState link_state_of(verbs::PortState state) {
  return static_cast<LinkState>(state);
}

/// PortPhysicalState; the first three are also values of LinkDownDefaultState.
enum class PhysicalState : std::uint8_t {
  NoChange = 0,
  Sleep = 1,
  Polling = 2,
  Disabled = 3,
  Training = 4,
  LinkUp = 5,
  ErrorRecovery = 6,
  PhyTest = 7,
};

/// PortInfo (IBTA vol 1 §14.2.5.6). The AttributeModifier of the SMP is the port number.
struct PortInfo {
  static constexpr std::string_view kName = "PortInfo";

  std::uint64_t mkey{};
  std::uint64_t gid_prefix{kDefaultGidPrefix};
  Lid lid{};
  Lid master_sm_lid{};
  PortCapabilities capability_mask{};
  std::uint16_t diag_code{};
  std::uint16_t mkey_lease_period{};  ///< seconds; 0: infinite
  PortNumber local_port{};            ///< port at which the SMP arrived
  std::uint8_t link_width_enabled{};  ///< bitmap: 1x, 4x, 8x, 12x, 2x
  std::uint8_t link_width_supported{};
  std::uint8_t link_width_active{};
  std::uint8_t link_speed_supported{};  ///< bitmap: 2.5, 5, 10 Gb/s per lane
  LinkState port_state{LinkState::Down};
  PhysicalState physical_state{};
  PhysicalState link_down_default_state{};
  std::uint8_t mkey_protect_bits{};
  std::uint8_t lmc{};
  std::uint8_t link_speed_active{};
  std::uint8_t link_speed_enabled{};
  Mtu neighbor_mtu{};
  ServiceLevel master_sm_sl{};
  std::uint8_t vl_cap{};  ///< 1: VL0, 2: VL0-1, 3: VL0-3, 4: VL0-7, 5: VL0-14
  std::uint8_t init_type{};
  std::uint8_t vl_high_limit{};
  std::uint8_t vl_arbitration_high_cap{};
  std::uint8_t vl_arbitration_low_cap{};
  std::uint8_t init_type_reply{};
  Mtu mtu_cap{};
  std::uint8_t vl_stall_count{};
  std::uint8_t hoq_lifetime{};
  std::uint8_t operational_vls{};
  bool partition_enforcement_inbound{};
  bool partition_enforcement_outbound{};
  bool filter_raw_inbound{};
  bool filter_raw_outbound{};
  std::uint16_t mkey_violations{};
  std::uint16_t pkey_violations{};
  std::uint16_t qkey_violations{};
  std::uint8_t guid_cap{};  ///< number of entries of GUIDInfo
  bool client_reregister{};
  std::uint8_t multicast_pkey_trap_suppression{};
  std::uint8_t subnet_timeout{};   ///< exponent, as TimeoutExponent
  std::uint8_t resp_time_value{};  ///< exponent, as TimeoutExponent
  std::uint8_t local_phy_errors{};
  std::uint8_t overrun_errors{};
  std::uint16_t max_credit_hint{};
  std::uint32_t link_round_trip_latency{};
  PortCapabilities2 capability_mask2{};
  std::uint8_t link_speed_ext_active{};  ///< bitmap: 14, 25, 50, 100 Gb/s per lane
  std::uint8_t link_speed_ext_supported{};
  std::uint8_t link_speed_ext_enabled{};
  bool operator==(const PortInfo&) const = default;

  // clang-format off
  using Wire = Layout<64,
      Field<"M_Key", 64, &PortInfo::mkey>,
      Field<"GidPrefix", 64, &PortInfo::gid_prefix>,
      Field<"LID", 16, &PortInfo::lid>,
      Field<"MasterSMLID", 16, &PortInfo::master_sm_lid>,
      Field<"CapabilityMask", 32, &PortInfo::capability_mask>,
      Field<"DiagCode", 16, &PortInfo::diag_code>,
      Field<"M_KeyLeasePeriod", 16, &PortInfo::mkey_lease_period>,
      Field<"LocalPortNum", 8, &PortInfo::local_port>,
      Field<"LinkWidthEnabled", 8, &PortInfo::link_width_enabled>,
      Field<"LinkWidthSupported", 8, &PortInfo::link_width_supported>,
      Field<"LinkWidthActive", 8, &PortInfo::link_width_active>,
      Field<"LinkSpeedSupported", 4, &PortInfo::link_speed_supported>,
      Field<"PortState", 4, &PortInfo::port_state>,
      Field<"PortPhysicalState", 4, &PortInfo::physical_state>,
      Field<"LinkDownDefaultState", 4, &PortInfo::link_down_default_state>,
      Field<"M_KeyProtectBits", 2, &PortInfo::mkey_protect_bits>,
      Reserved<3>,
      Field<"LMC", 3, &PortInfo::lmc>,
      Field<"LinkSpeedActive", 4, &PortInfo::link_speed_active>,
      Field<"LinkSpeedEnabled", 4, &PortInfo::link_speed_enabled>,
      Field<"NeighborMTU", 4, &PortInfo::neighbor_mtu>,
      Field<"MasterSMSL", 4, &PortInfo::master_sm_sl>,
      Field<"VLCap", 4, &PortInfo::vl_cap>,
      Field<"InitType", 4, &PortInfo::init_type>,
      Field<"VLHighLimit", 8, &PortInfo::vl_high_limit>,
      Field<"VLArbitrationHighCap", 8, &PortInfo::vl_arbitration_high_cap>,
      Field<"VLArbitrationLowCap", 8, &PortInfo::vl_arbitration_low_cap>,
      Field<"InitTypeReply", 4, &PortInfo::init_type_reply>,
      Field<"MTUCap", 4, &PortInfo::mtu_cap>,
      Field<"VLStallCount", 3, &PortInfo::vl_stall_count>,
      Field<"HOQLife", 5, &PortInfo::hoq_lifetime>,
      Field<"OperationalVLs", 4, &PortInfo::operational_vls>,
      Field<"PartitionEnforcementInbound", 1, &PortInfo::partition_enforcement_inbound>,
      Field<"PartitionEnforcementOutbound", 1, &PortInfo::partition_enforcement_outbound>,
      Field<"FilterRawInbound", 1, &PortInfo::filter_raw_inbound>,
      Field<"FilterRawOutbound", 1, &PortInfo::filter_raw_outbound>,
      Field<"M_KeyViolations", 16, &PortInfo::mkey_violations>,
      Field<"P_KeyViolations", 16, &PortInfo::pkey_violations>,
      Field<"Q_KeyViolations", 16, &PortInfo::qkey_violations>,
      Field<"GUIDCap", 8, &PortInfo::guid_cap>,
      Field<"ClientReregister", 1, &PortInfo::client_reregister>,
      Field<"MulticastPKeyTrapSuppressionEnabled", 2, &PortInfo::multicast_pkey_trap_suppression>,
      Field<"SubnetTimeOut", 5, &PortInfo::subnet_timeout>,
      Reserved<3>,
      Field<"RespTimeValue", 5, &PortInfo::resp_time_value>,
      Field<"LocalPhyErrors", 4, &PortInfo::local_phy_errors>,
      Field<"OverrunErrors", 4, &PortInfo::overrun_errors>,
      Field<"MaxCreditHint", 16, &PortInfo::max_credit_hint>,
      Reserved<8>,
      Field<"LinkRoundTripLatency", 24, &PortInfo::link_round_trip_latency>,
      Field<"CapabilityMask2", 16, &PortInfo::capability_mask2>,
      Field<"LinkSpeedExtActive", 4, &PortInfo::link_speed_ext_active>,
      Field<"LinkSpeedExtSupported", 4, &PortInfo::link_speed_ext_supported>,
      Reserved<3>,
      Field<"LinkSpeedExtEnabled", 5, &PortInfo::link_speed_ext_enabled>>;
  // clang-format on
};

}  // namespace weft::wire
