#pragma once

// What the agents of a node keep that the fabric's tables do not. Values; a fabric has one
// PortAgent a port, so they are small.

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

/// Our own, as the verbs report them.
inline constexpr std::uint32_t kVendorId = 0x5746;
inline constexpr std::uint16_t kHcaDeviceId = 1;
inline constexpr std::uint16_t kSwitchDeviceId = 2;

/// What a port can; policy, not from the specification.
inline constexpr std::uint8_t kVlCap = 4;  // VL0 to VL7
inline constexpr std::uint8_t kVlArbitrationCap = 8;
inline constexpr std::uint8_t kGuidCap = 32;
inline constexpr std::uint16_t kPartitionCap = fabric::kMaxPKeysPerPort;
inline constexpr std::uint16_t kLinearFdbCap = 0xC000;  // every unicast LID
inline constexpr std::uint16_t kMulticastFdbCap = 1024;
inline constexpr std::uint8_t kDefaultSubnetTimeout = 18;  // about a second, as SMs have it

/// Of the SLtoVL and VL arbitration tables of one port, when they were written.
struct QosTables {
  std::vector<wire::SlToVlMappingTable> sl_to_vl;       // by input port of a switch; one of an HCA
  std::array<wire::VlArbitrationTable, 4> arbitration;  // low 1, low 2, high 1, high 2
};

enum class PortAgentFlag : std::uint8_t {
  Led = 1,
  Unplugged = 2,  // its cable is out, at this end or the other
  PartitionEnforcementInbound = 4,
  PartitionEnforcementOutbound = 8,
  FilterRawInbound = 16,
  FilterRawOutbound = 32,
};

struct PortAgent {
  std::uint64_t mkey{};
  std::uint64_t gid_prefix{kDefaultGidPrefix};
  Instant lease_ends{Instant::never()};  // of the M_Key, once somebody came without it
  std::unique_ptr<QosTables> qos;
  wire::PortCapabilities capabilities;
  fabric::LinkSpeed best;             // that the cable carries when nobody restrains it
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
  std::uint8_t init_type{};
  std::uint8_t vl_high_limit{};
  std::uint8_t vl_stall_count{7};
  std::uint8_t hoq_lifetime{};
  std::uint8_t operational_vls{kVlCap};
  std::uint8_t multicast_pkey_trap_suppression{};
  std::uint8_t subnet_timeout{kDefaultSubnetTimeout};
  std::uint8_t local_phy_errors{};
  std::uint8_t overrun_errors{};
  Flags<PortAgentFlag> flags;

  /// Training is possible as far as this end goes.
  [[nodiscard]] bool is_polling() const {
    return physical != wire::PhysicalState::Disabled && physical != wire::PhysicalState::Sleep &&
           !flags.has(PortAgentFlag::Unplugged);
  }
};

static_assert(sizeof(PortAgent) <= 80, "a fabric has hundreds of thousands of ports");

/// SwitchInfo as far as it is written, by switch.
struct SwitchAgent {
  std::uint16_t linear_fdb_top{};
  PortNumber default_port;
  PortNumber default_multicast_primary_port;
  PortNumber default_multicast_not_primary_port;
  std::uint8_t life_time{};
  bool port_state_change{true};  // at power-on its links came up
};

}  // namespace weft::agents
