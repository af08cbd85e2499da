#pragma once

// Per-port and per-switch state of agents beyond the fabric's tables. Plain values, kept small
// since a fabric has one PortAgent for each port.

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/tables.h"
#include "wire/mad/port_info.h"
#include "wire/mad/port_tables.h"

namespace weft::agents {

/// Our own IDs, which verbs report as well.
inline constexpr std::uint32_t kVendorId = 0x5746;
inline constexpr std::uint16_t kHcaDeviceId = 1;
inline constexpr std::uint16_t kSwitchDeviceId = 2;

/// Capabilities of a port; policy, not from the specification.
inline constexpr std::uint8_t kVlCap = 4;  // VL0 to VL7
inline constexpr std::uint8_t kVlArbitrationCap = 8;
inline constexpr std::uint8_t kGuidCap = 32;  // at first: see FabricAgents::set_guid_cap
inline constexpr std::uint16_t kPartitionCap = fabric::kMaxPKeysPerPort;
inline constexpr std::uint16_t kLinearFdbCap = 0xC000;  // every unicast LID
inline constexpr std::uint16_t kMulticastFdbCap = 1024;
inline constexpr std::uint8_t kDefaultSubnetTimeout =
    18;  // about a second, as subnet managers set it

/// SLtoVL and VL arbitration tables of a port, allocated when first written.
struct QosTables {
  std::vector<wire::SlToVlMappingTable> sl_to_vl;       // by input port of a switch; one for an HCA
  std::array<wire::VlArbitrationTable, 4> arbitration;  // low 1, low 2, high 1, high 2
};

/// Boolean settings of a port.
enum class PortAgentFlag : std::uint8_t {
  Led = 1,
  Unplugged = 2,  // the cable is unplugged, at either end
  PartitionEnforcementInbound = 4,
  PartitionEnforcementOutbound = 8,
  FilterRawInbound = 16,
  FilterRawOutbound = 32,
};

/// What the SMA of one port keeps (IBTA vol 1 §14.2.5.6), besides the tables' PortRecord.
struct PortAgent {
  std::uint64_t mkey{};
  std::uint64_t gid_prefix{kDefaultGidPrefix};
  Instant lease_ends{
      Instant::never()};  // end of the M_Key lease, which a request without the key starts
  std::unique_ptr<QosTables> qos;
  wire::PortCapabilities capabilities;
  fabric::LinkSpeed best;             // what the cable carries if neither end limits it
  std::uint16_t mkey_lease_period{};  // seconds
  std::uint16_t mkey_violations{};
  std::uint16_t pkey_violations{};
  std::uint16_t qkey_violations{};
  std::uint8_t mkey_protect_bits{};
  std::uint8_t width_enabled{};
  std::uint8_t speed_enabled{};
  std::uint8_t extended_enabled{};
  wire::PhysicalState physical{wire::PhysicalState::Polling};
  wire::PhysicalState down_default{wire::PhysicalState::Polling};
  std::uint8_t init_type{};        // what the host asks for
  std::uint8_t init_type_reply{};  // what the subnet manager has done
  std::uint8_t vl_high_limit{};
  std::uint8_t vl_stall_count{7};
  std::uint8_t hoq_lifetime{};
  std::uint8_t operational_vls{kVlCap};
  std::uint8_t guid_cap{kGuidCap};  // of an HCA port
  std::uint8_t multicast_pkey_trap_suppression{};
  std::uint8_t subnet_timeout{kDefaultSubnetTimeout};
  std::uint8_t local_phy_errors{};
  std::uint8_t overrun_errors{};
  Flags<PortAgentFlag> flags;

  /// This end allows the link to train.
  [[nodiscard]] bool is_polling() const {
    return physical != wire::PhysicalState::Disabled && physical != wire::PhysicalState::Sleep &&
           !flags.has(PortAgentFlag::Unplugged);
  }
};

static_assert(sizeof(PortAgent) <= 80, "a fabric has hundreds of thousands of ports");

/// The writable parts of SwitchInfo, per switch.
struct SwitchAgent {
  std::uint16_t linear_fdb_top{};
  PortNumber default_port;
  PortNumber default_multicast_primary_port;
  PortNumber default_multicast_not_primary_port;
  std::uint8_t life_time{};
  bool port_state_change{true};  // set at power-on since links came up
};

}  // namespace weft::agents
