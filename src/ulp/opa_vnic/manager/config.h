#pragma once

// What an Ethernet Manager is to make: virtual Ethernet switches and their ports. A value; whoever
// reads it from a file has checked it by `validate`.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "ulp/opa_vnic/virtual_port.h"
#include "wire/mac_address.h"
#include "wire/opa/vesw_port_info.h"

namespace weft::opa_vnic {

/// Which addresses of a port the others' MAC tables have.
enum class MacSource : std::uint8_t {
  Configured,  ///< the port's own address and those configured for it
  Reported,    ///< also those that its interface reports
};

/// Service channels and virtual lanes, by the priority of a VLAN tag.
struct PriorityMap {
  std::array<std::uint8_t, wire::kPriorities> sc{};
  std::array<std::uint8_t, wire::kPriorities> vl{};
  std::uint8_t untagged_sc{};
  std::uint8_t untagged_vl{};
  bool operator==(const PriorityMap&) const = default;
};

/// A port of a virtual switch.
struct MemberConfig {
  Guid port{};  ///< of the OPA port
  std::uint8_t vport{};
  wire::MacAddress mac{};
  std::vector<wire::MacAddress> more_macs{};
  bool operator==(const MemberConfig&) const = default;
};

struct SwitchConfig {
  std::string name{};
  std::uint16_t fabric_id{};
  std::uint16_t vesw_id{};
  PKey pkey{kDefaultPKey};
  std::uint16_t mtu{kDefaultEthMtu};
  std::uint32_t multicast_dlid{};
  std::vector<std::uint32_t> default_dlids{};  ///< where frames for unknown stations go
  MacSource mac_source{MacSource::Reported};
  /// A port may only send from the addresses that its peers' tables have for it.
  bool filters_sources{};
  std::uint32_t routing_control{};
  PriorityMap unicast{};
  PriorityMap multicast{};
  std::vector<MemberConfig> members{};
  bool operator==(const SwitchConfig&) const = default;
};

struct ManagerConfig {
  std::vector<SwitchConfig> switches;
  bool operator==(const ManagerConfig&) const = default;
};

/// Fails for numbers that do not fit their fields, for a virtual switch, port or address that is
/// there twice, and for an MTU that no port can have.
[[nodiscard]] Result<void> validate(const ManagerConfig& config);

/// What VeswPortInfo a member is to have.
[[nodiscard]] wire::VeswPortInfo wanted_info(const SwitchConfig& config, std::size_t member,
                                             std::uint32_t lid, wire::VeswPortState state);

}  // namespace weft::opa_vnic
