#include "ulp/opa_vnic/manager/config.h"

#include <algorithm>
#include <set>
#include <utility>

namespace weft::opa_vnic {
namespace {

constexpr std::uint16_t kMaxFabricId = 0x3FF;
constexpr std::uint16_t kMaxVeswId = 0xFFF;
constexpr std::uint32_t kMaxLid = 0xFF'FFFF;
constexpr std::uint16_t kMinEthMtu = 68;  // RFC 791 §3.1

Result<void> check_numbers(const SwitchConfig& config) {
  if (config.fabric_id > kMaxFabricId || config.vesw_id == 0 || config.vesw_id > kMaxVeswId) {
    return fail(ErrorCode::InvalidArgument,
                "switch {}: fabric {} and switch {}; fabrics go up to {}, switches from 1 to {}",
                config.name, config.fabric_id, config.vesw_id, kMaxFabricId, kMaxVeswId);
  }
  if (config.mtu < kMinEthMtu || config.mtu > kMaxEthMtu) {
    return fail(ErrorCode::InvalidArgument, "switch {}: MTU {} is not from {} to {}", config.name,
                config.mtu, kMinEthMtu, kMaxEthMtu);
  }
  if (config.default_dlids.size() > wire::kMaxDefaultPorts) {
    return fail(ErrorCode::InvalidArgument, "switch {}: {} default ports; there are at most {}",
                config.name, config.default_dlids.size(), wire::kMaxDefaultPorts);
  }
  const auto is_too_large = [](std::uint32_t lid) { return lid > kMaxLid; };
  if (is_too_large(config.multicast_dlid) ||
      std::ranges::any_of(config.default_dlids, is_too_large)) {
    return fail(ErrorCode::InvalidArgument, "switch {}: a LID has more than 24 bits", config.name);
  }
  return {};
}

Result<void> check_macs(const SwitchConfig& config) {
  std::set<wire::MacAddress> macs;
  for (const MemberConfig& member : config.members) {
    std::vector<wire::MacAddress> own = member.more_macs;
    own.push_back(member.mac);
    for (const wire::MacAddress& mac : own) {
      if (mac.is_zero() || mac.is_multicast() || !macs.insert(mac).second) {
        return fail(ErrorCode::InvalidArgument,
                    "switch {}: the address {:012x} of a port is no station's, or is there twice",
                    config.name, mac.number());
      }
    }
  }
  return {};
}

}  // namespace

Result<void> validate(const ManagerConfig& config) {
  std::set<std::uint16_t> switches;
  std::set<std::pair<Guid, std::uint8_t>> vports;
  for (const SwitchConfig& one : config.switches) {
    if (auto checked = check_numbers(one); !checked) {
      return checked;
    }
    if (auto checked = check_macs(one); !checked) {
      return checked;
    }
    if (!switches.insert(one.vesw_id).second) {
      return fail(ErrorCode::InvalidArgument, "switch {}: number {} is another's", one.name,
                  one.vesw_id);
    }
    for (const MemberConfig& member : one.members) {
      if (member.vport >= kMaxVportNumbers || !vports.emplace(member.port, member.vport).second) {
        return fail(ErrorCode::InvalidArgument,
                    "switch {}: virtual port {} of {:#x} is there twice, or above {}", one.name,
                    member.vport, member.port.value(), kMaxVportNumbers - 1);
      }
    }
  }
  return {};
}

wire::VeswPortInfo wanted_info(const SwitchConfig& config, std::size_t member, std::uint32_t lid,
                               wire::VeswPortState state) {
  wire::VeswPortInfo info{};
  info.vesw.fabric_id = config.fabric_id;
  info.vesw.vesw_id = config.vesw_id;
  info.vesw.default_port_mask =
      static_cast<std::uint16_t>((1U << config.default_dlids.size()) - 1U);
  info.vesw.pkey = config.pkey.value();
  info.vesw.multicast_dlid = config.multicast_dlid;
  std::ranges::copy(config.default_dlids, info.vesw.unicast_dlids.begin());
  info.vesw.routing_control = config.routing_control;
  info.vesw.eth_mtu = config.mtu;
  info.port.port_number = static_cast<std::uint32_t>(member + 1);
  info.port.base_mac = config.members[member].mac;
  info.port.config_state = state;
  info.port.encap_slid = lid;
  info.port.unicast_sc = config.unicast.sc;
  info.port.unicast_vl = config.unicast.vl;
  info.port.multicast_sc = config.multicast.sc;
  info.port.multicast_vl = config.multicast.vl;
  info.port.untagged_unicast_sc = config.unicast.untagged_sc;
  info.port.untagged_unicast_vl = config.unicast.untagged_vl;
  info.port.untagged_multicast_sc = config.multicast.untagged_sc;
  info.port.untagged_multicast_vl = config.multicast.untagged_vl;
  return info;
}

}  // namespace weft::opa_vnic
