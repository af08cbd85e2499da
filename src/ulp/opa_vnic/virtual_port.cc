#include "ulp/opa_vnic/virtual_port.h"

#include <algorithm>
#include <utility>

#include "ulp/opa_vnic/planted_bug.h"

namespace weft::opa_vnic {

using wire::EthLinkStatus;
using wire::VemaEvent;
using wire::VeswPortState;

wire::VeswPortInfo power_on_info(EthLinkStatus link) {
  wire::VeswPortInfo info{};
  info.vesw.eth_mtu = kDefaultEthMtu;
  info.port.eth_link_status = link;
  info.port.config_state = VeswPortState::DropAll;
  info.port.oper_state = VeswPortState::DropAll;
  info.port.max_mac_entries = wire::kMaxMacTableEntries;
  info.port.max_source_mac_entries = kMaxSourceMacEntries;
  return info;
}

VirtualPort::VirtualPort(const VirtualPortName& name, const wire::MacAddress& hardware_mac,
                         const TrapLimits& limits)
    : name_(name),
      mac_(hardware_mac),
      info_(power_on_info(EthLinkStatus::Down)),
      mac_table_(std::make_shared<MacTable>()),
      traps_(limits) {}

wire::VeswPortInfo VirtualPort::info() const {
  wire::VeswPortInfo info = info_;
  info.port.mac_table_digest = mac_table_->digest();
  info.port.unicast_generation = unicast_macs_.generation();
  info.port.multicast_generation = multicast_macs_.generation();
  return info;
}

void VirtualPort::set_info(const wire::VeswPortInfo& wanted, Instant now) {
  const wire::PerVeswPortInfo old = info_.port;
  info_ = wanted;
  info_.port.eth_link_status = old.eth_link_status;
  info_.port.oper_state = old.oper_state;
  info_.port.max_mac_entries = old.max_mac_entries;
  info_.port.max_source_mac_entries = old.max_source_mac_entries;
  apply(now);
}

void VirtualPort::reset(Instant now) {
  const wire::PerVeswPortInfo old = info_.port;
  info_ = power_on_info(EthLinkStatus::Down);
  info_.port.oper_state = old.oper_state;
  info_.port.eth_link_status = old.eth_link_status;
  mac_table_ = std::make_shared<MacTable>();
  apply(now);
}

/// What follows from the configuration, the interface and the OPA port together.
void VirtualPort::apply(Instant now) {
  if (!info_.port.base_mac.is_zero()) {
    mac_ = info_.port.base_mac;
  }
  flows_ = make_flow_table(info_.vesw.default_port_mask);
  const bool forwards = has_carrier() && is_interface_up_;
  const auto link = forwards ? EthLinkStatus::Up : EthLinkStatus::Down;
  info_.port.oper_state = forwards ? VeswPortState::Forwarding : VeswPortState::DropAll;
  if (std::exchange(info_.port.eth_link_status, link) != link) {
    traps_.report(VemaEvent::LinkStatusChanged, now);
  }
}

Result<void> VirtualPort::set_mac_block(const wire::MacTableBlock& block) {
  auto table = mac_table_->with_block(block);
  if (!table) {
    return std::unexpected(table.error());
  }
  mac_table_ = std::move(*table);
  return {};
}

wire::MacList VirtualPort::unicast_macs(std::uint16_t start, std::uint16_t count) const {
  return unicast_macs_.page(start, count, info_.port.base_mac);
}

wire::MacList VirtualPort::multicast_macs(std::uint16_t start, std::uint16_t count) const {
  return multicast_macs_.page(start, count, {});
}

wire::VeswPortSummaryCounters VirtualPort::summary_counters() const {
  wire::VeswPortSummaryCounters counters = counters_.summary();
  counters.vport_instance = name_.number;
  counters.vesw_id = info_.vesw.vesw_id;
  counters.port_number = info_.port.port_number;
  return counters;
}

wire::VeswPortErrorCounters VirtualPort::error_counters() const {
  wire::VeswPortErrorCounters counters = counters_.errors();
  counters.vport_instance = name_.number;
  counters.vesw_id = info_.vesw.vesw_id;
  counters.port_number = info_.port.port_number;
  return counters;
}

void VirtualPort::set_interface_up(bool is_up, Instant now) {
  is_interface_up_ = is_up;
  apply(now);
}

void VirtualPort::set_port_active(bool is_active, Instant now) {
  is_port_active_ = is_active;
  apply(now);
}

void VirtualPort::set_unicast_macs(std::vector<wire::MacAddress> macs, Instant now) {
  if (unicast_macs_.set(std::move(macs))) {
    traps_.report(VemaEvent::UnicastMacsChanged, now);
  }
}

void VirtualPort::set_multicast_macs(std::vector<wire::MacAddress> macs, Instant now) {
  if (multicast_macs_.set(std::move(macs))) {
    traps_.report(VemaEvent::MulticastMacsChanged, now);
  }
}

std::uint16_t VirtualPort::mtu() const { return std::min(wanted_mtu_, info_.vesw.eth_mtu); }

bool VirtualPort::has_carrier() const {
  return is_port_active_ && (info_.port.config_state == VeswPortState::Forwarding ||
                             planted(PlantedBug::ForwardsWhileDropAll));
}

bool VirtualPort::is_forwarding() const {
  return info_.port.oper_state == VeswPortState::Forwarding;
}

std::size_t VirtualPort::max_frame_bytes() const {
  constexpr std::size_t kHeaderAndTag = 18;
  return std::size_t{mtu()} + kHeaderAndTag;
}

wire::VeswPortTrap VirtualPort::trap(VemaEvent event) const {
  return {.fabric_id = info_.vesw.fabric_id,
          .vesw_id = info_.vesw.vesw_id,
          .port_number = info_.port.port_number,
          .opa_port = name_.opa_port.value(),
          .port_index = name_.number,
          .event = event};
}

}  // namespace weft::opa_vnic
