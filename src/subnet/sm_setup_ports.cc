// Setup: ports and VLs; processing of responses.

#include <algorithm>
#include <array>

#include "subnet/sm_setup.h"

namespace weft::subnet {
namespace {

constexpr std::uint32_t kPKeysPerBlock = 32;
constexpr std::uint32_t kGuidsPerBlock = 8;
constexpr std::uint32_t kPortsPerPosition = 16;
constexpr std::uint32_t kMulticastPositionShift = 28;  // IBTA vol 1 §14.2.5.12
constexpr std::uint32_t kMulticastBlockMask = 0x1FF;
constexpr std::uint16_t kKeepViolations = 0xFFFF;  // only writing 0 resets the counter (§14.2.5.6)

/// Number of data VLs for an OperationalVLs code.
[[nodiscard]] std::uint8_t lanes_of(std::uint8_t vl_cap) {
  constexpr std::array<std::uint8_t, 6> kLanes = {1, 1, 2, 4, 8, 15};
  return kLanes[std::min<std::size_t>(vl_cap, kLanes.size() - 1)];
}

[[nodiscard]] wire::SlToVlMappingTable lanes_for(std::uint8_t vl_count) {
  wire::SlToVlMappingTable table;
  for (std::uint8_t sl = 0; sl < table.vls.size(); ++sl) {
    table.vls[sl] = VirtualLane{static_cast<std::uint8_t>(sl % vl_count)};
  }
  return table;
}

/// All VLs get equal weight; policy, not from the specification.
[[nodiscard]] wire::VlArbitrationTable arbitration_for(std::uint8_t vl_count) {
  constexpr std::uint8_t kWeight = 64;
  wire::VlArbitrationTable table;
  for (std::uint8_t vl = 0; vl < vl_count; ++vl) {
    table.entries[vl] = {.vl = VirtualLane{vl}, .weight = kWeight};
  }
  return table;
}

}  // namespace

/// Only if paths use several VLs: SL n maps to VL n for all port pairs (§14.2.5.8), with
/// round-robin low-priority arbitration.
void Setup::plan_lanes(PortId port) {
  if (routing_.vl_count < 2) {
    return;
  }
  SubnetPort& record = subnet_.port(port);
  const SubnetNode& node = subnet_.node(port.node);
  const std::size_t inputs = node.is_switch() ? node.ports.size() : 1;
  const bool has_table = node.is_switch() ? port.number != PortNumber{} : record.guid != Guid{};
  if (!has_table || !record.is_up() || lanes_of(record.info.vl_cap) < 2) {
    return;
  }
  record.sl_to_vl.resize(inputs);
  for (std::uint32_t input = 0; input < inputs; ++input) {
    if (record.sl_to_vl[input] != lanes_for(routing_.vl_count)) {
      plan(port, wire::SmpAttribute::SlToVlMappingTable,
           node.is_switch() ? input << 8 | port.number.value() : 0);
    }
  }
  record.vl_arbitration.resize(4);
  if (record.vl_arbitration[0] != arbitration_for(routing_.vl_count)) {
    plan(port, wire::SmpAttribute::VlArbitrationTable,
         1U << 16 | (node.is_switch() ? port.number.value() : 0U));
  }
}

/// The intended PortInfo (§14.4.4 to §14.4.6). `state` is NoChange or the next state.
wire::PortInfo Setup::wanted_info(PortId port, wire::LinkState state) const {
  const SubnetNode& node = subnet_.node(port.node);
  const SubnetPort& record = subnet_.port(port);
  wire::PortInfo info = reported(port);
  if (!node.is_switch() || port.number == PortNumber{}) {
    info.mkey = options_.mkey;
    info.mkey_lease_period =
        options_.mkey == 0 ? info.mkey_lease_period : options_.mkey_lease_period;
    info.mkey_protect_bits = options_.mkey == 0 ? std::uint8_t{0} : options_.mkey_protect_bits;
    info.gid_prefix = options_.subnet_prefix;
    info.lid = record.info.lid;
    info.lmc = record.info.lmc;
    info.master_sm_lid = master_lid_;
    info.master_sm_sl = ServiceLevel{};
    info.subnet_timeout = options_.subnet_timeout;
    info.client_reregister =
        reregister_.contains(record.guid) &&
        info.capability_mask.has(wire::PortCapability::IsClientReregistrationSupported);
  }
  if (record.peer.node != kNoNode) {
    const wire::PortInfo& peer = subnet_.port(record.peer).info;
    info.neighbor_mtu = std::min({info.mtu_cap, peer.mtu_cap, options_.largest_mtu});
    info.operational_vls = std::min(info.vl_cap, peer.vl_cap);
  }
  info.port_state = state;
  return info;
}

void Setup::for_each_managed_port(void (Setup::*visit)(PortId)) {
  for (std::uint32_t i = 0; i < subnet_.nodes().size(); ++i) {
    const SubnetNode& node = subnet_.nodes()[i];
    for (const SubnetPort& port : node.ports) {
      const bool is_port_0 = node.is_switch() && port.number == PortNumber{};
      const bool has_link = port.peer.node != kNoNode && port.is_up();
      const bool is_own = !node.is_switch() && port.info.lid != Lid{};
      if (is_port_0 || has_link || is_own) {
        (this->*visit)({NodeId{i}, port.number});
      }
    }
  }
}

void Setup::plan_ports() { for_each_managed_port(&Setup::plan_port); }
void Setup::plan_active() { for_each_managed_port(&Setup::plan_active_port); }

void Setup::plan_port(PortId port) {
  const wire::PortInfo& now = reported(port);
  const bool arms = subnet_.port(port).peer.node != kNoNode &&
                    now.port_state == wire::LinkState::Init && port.number != PortNumber{};
  if (arms || wanted_info(port, now.port_state) != now) {
    plan(port, wire::SmpAttribute::PortInfo, port.number.value());
  }
}

void Setup::plan_active_port(PortId port) {
  if (port.number != PortNumber{} && reported(port).port_state == wire::LinkState::Armed &&
      subnet_.port(port).peer.node != kNoNode) {
    plan(port, wire::SmpAttribute::PortInfo, port.number.value());
  }
}

SmpData Setup::data_of(const SmpRequest& request) const {
  const SubnetNode& node = subnet_.node(request.to.node);
  switch (request.attribute) {
    case wire::SmpAttribute::LinearForwardingTable: {
      wire::LinearForwardingTable table;
      const auto& wanted = routing_.forwarding[graph_.position_of[request.to.node.value()]];
      for (std::size_t i = 0; i < table.ports.size(); ++i) {
        const std::size_t lid = request.modifier * wire::kLinearBlockLids + i;
        table.ports[i] = lid < wanted.size() ? wanted[lid] : wire::kNoForwardingPort;
      }
      return smp_data(table);
    }
    case wire::SmpAttribute::MulticastForwardingTable: {
      wire::MulticastForwardingTable table;
      const std::uint32_t block = request.modifier & kMulticastBlockMask;
      const std::uint32_t position = request.modifier >> kMulticastPositionShift;
      for (std::uint32_t i = 0; i < wire::kMulticastBlockLids; ++i) {
        const PortMask mask =
            wanted_mask(request.to.node, block * std::uint32_t{wire::kMulticastBlockLids} + i);
        for (std::uint32_t bit = 0; bit < kPortsPerPosition; ++bit) {
          table.port_masks[i] = static_cast<std::uint16_t>(
              table.port_masks[i] | mask.test(position * kPortsPerPosition + bit) << bit);
        }
      }
      return smp_data(table);
    }
    case wire::SmpAttribute::SwitchInfo: {
      wire::SwitchInfo info = wanted_switch_info(request.to.node);
      // writing 1 clears it (§14.2.5.4)
      info.port_state_change = node.switch_info->port_state_change;
      return smp_data(info);
    }
    case wire::SmpAttribute::PKeyTable: {
      wire::PKeyTable table;
      const std::vector<PKey> wanted = wanted_pkeys(request.to);
      for (std::size_t i = 0; i < kPKeysPerBlock; ++i) {
        const std::size_t at = request.modifier * kPKeysPerBlock + i;
        table.pkeys[i] = at < wanted.size() ? wanted[at] : PKey{};
      }
      return smp_data(table);
    }
    case wire::SmpAttribute::GuidInfo: {
      wire::GuidInfo info;
      const std::vector<Guid>& wanted = guids_.at(request.to);
      for (std::size_t i = 0; i < kGuidsPerBlock; ++i) {
        const std::size_t at = request.modifier * kGuidsPerBlock + i;
        info.guids[i] = at < wanted.size() ? wanted[at] : Guid{};
      }
      return smp_data(info);
    }
    case wire::SmpAttribute::SlToVlMappingTable:
      return smp_data(lanes_for(routing_.vl_count));
    case wire::SmpAttribute::VlArbitrationTable:
      return smp_data(arbitration_for(routing_.vl_count));
    default:
      return port_info_data(request.to);
  }
}

SmpData Setup::port_info_data(PortId port) const {
  const wire::LinkState now = reported(port).port_state;
  const bool has_link = port.number != PortNumber{} && subnet_.port(port).peer.node != kNoNode;
  wire::LinkState next = wire::LinkState::NoChange;
  if (has_link && now == wire::LinkState::Init) {
    next = wire::LinkState::Armed;
  } else if (has_link && now == wire::LinkState::Armed) {
    next = wire::LinkState::Active;
  }
  wire::PortInfo info = wanted_info(port, next);
  info.physical_state = wire::PhysicalState::NoChange;
  info.link_down_default_state = wire::PhysicalState::NoChange;
  info.link_width_enabled = 0;  // no change
  info.link_speed_enabled = 0;
  info.link_speed_ext_enabled = 0;
  info.mkey_violations = kKeepViolations;
  info.pkey_violations = kKeepViolations;
  info.qkey_violations = kKeepViolations;
  return smp_data(info);
}

void Setup::take(const SmpRequest& request, const SmpAnswer& answer) {
  if (!answer.is_good()) {
    ++failures_;
    return;
  }
  SubnetNode& node = subnet_.node(request.to.node);
  switch (request.attribute) {
    case wire::SmpAttribute::LinearForwardingTable: {
      const auto table = answer.as<wire::LinearForwardingTable>();
      for (std::size_t i = 0; i < table.ports.size(); ++i) {
        const std::size_t lid = request.modifier * wire::kLinearBlockLids + i;
        if (lid < node.forwarding.size()) {
          node.forwarding[lid] = table.ports[i];
        }
      }
      return;
    }
    case wire::SmpAttribute::MulticastForwardingTable:
      return take_multicast(request, answer.as<wire::MulticastForwardingTable>());
    case wire::SmpAttribute::SwitchInfo:
      node.switch_info = answer.as<wire::SwitchInfo>();
      return;
    case wire::SmpAttribute::PortInfo: {
      wire::PortInfo info = answer.as<wire::PortInfo>();
      info.local_port = request.to.number;
      info.client_reregister = false;
      reregister_.erase(subnet_.port(request.to).guid);
      reported(request.to) = info;
      const SubnetPort& port = subnet_.port(request.to);
      info.lid = port.info.lid;  // keeps the indexed value
      info.lmc = port.info.lmc;
      subnet_.port(request.to).info = info;
      return;
    }
    default:
      return take_table(request, answer);
  }
}

void Setup::take_multicast(const SmpRequest& request, const wire::MulticastForwardingTable& table) {
  std::vector<PortMask>& masks = subnet_.node(request.to.node).multicast;
  const std::uint32_t block = request.modifier & kMulticastBlockMask;
  const std::uint32_t position = request.modifier >> kMulticastPositionShift;
  for (std::uint32_t i = 0; i < wire::kMulticastBlockLids; ++i) {
    const std::size_t group = block * wire::kMulticastBlockLids + i;
    for (std::uint32_t bit = 0; group < masks.size() && bit < kPortsPerPosition; ++bit) {
      masks[group].set(position * kPortsPerPosition + bit, (table.port_masks[i] >> bit & 1) != 0);
    }
  }
}

void Setup::take_table(const SmpRequest& request, const SmpAnswer& answer) {
  SubnetPort& port = subnet_.port(request.to);
  if (request.attribute == wire::SmpAttribute::PKeyTable) {
    const auto table = answer.as<wire::PKeyTable>();
    for (std::size_t i = 0; i < kPKeysPerBlock; ++i) {
      port.pkeys.at(request.modifier * kPKeysPerBlock + i) = table.pkeys[i];
    }
  } else if (request.attribute == wire::SmpAttribute::GuidInfo) {
    const auto table = answer.as<wire::GuidInfo>();
    port.guids.resize(
        std::max<std::size_t>(port.guids.size(), (request.modifier + 1) * kGuidsPerBlock));
    std::ranges::copy(table.guids, port.guids.begin() + request.modifier * kGuidsPerBlock);
  } else if (request.attribute == wire::SmpAttribute::SlToVlMappingTable) {
    const std::size_t input = subnet_.node(request.to.node).is_switch() ? request.modifier >> 8 : 0;
    port.sl_to_vl.at(input) = answer.as<wire::SlToVlMappingTable>();
  } else {
    port.vl_arbitration.at(0) = answer.as<wire::VlArbitrationTable>();
  }
}

}  // namespace weft::subnet
