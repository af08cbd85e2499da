// PortInfo (IBTA vol 1 §14.2.5.6). A Set is checked as a whole before any of it takes effect.

#include <algorithm>

#include "agents/fabric_agents.h"
#include "agents/link_speeds.h"
#include "verbs/mtu.h"
#include "wire/mad/port_info_extended.h"

namespace weft::agents {

using fabric::PortIndex;
using fabric::PortRecord;
using fabric::PortState;
using wire::LinkState;
using wire::PhysicalState;
using wire::PortInfo;

namespace {

constexpr wire::PortCapabilities2 kCapabilities2 =
    wire::PortCapabilities2{wire::PortCapability2::IsSetNodeDescriptionSupported} |
    wire::PortCapability2::IsPortInfoExtendedSupported |
    wire::PortCapability2::IsLinkWidth2xSupported | wire::PortCapability2::IsLinkSpeedHdrSupported |
    wire::PortCapability2::IsLinkSpeedNdrSupported;

// Values that mean "all supported" in a Set (§14.2.5.6).
constexpr std::uint8_t kEverySupportedWidth = 0xFF;
constexpr std::uint8_t kEverySupportedSpeed = 0x0F;
constexpr std::uint8_t kEverySupportedExtended = 0x1F;
constexpr std::uint8_t kNoExtendedSpeed = 0x1E;

/// Bit of the AttributeModifier set by subnet managers that know extended speeds; the others name
/// the port.
constexpr std::uint32_t kSmSupportsExtendedSpeeds = 1U << 31;

[[nodiscard]] bool is_management_port(const PortRecord& record) {
  return !record.is_switch_port() || record.number == PortNumber{};
}

[[nodiscard]] bool is_allowed_width(std::uint8_t wanted, std::uint8_t supported) {
  return wanted == kEverySupportedWidth || (wanted & ~supported) == 0;
}

[[nodiscard]] bool is_allowed_state(LinkState wanted, PortState now) {
  switch (wanted) {
    case LinkState::NoChange:
    case LinkState::Down:
      return true;
    case LinkState::Init:
      return false;  // only training leads to it
    case LinkState::Armed:
      return now == PortState::Initialize || now == PortState::Armed;
    case LinkState::Active:
      return now == PortState::Armed || now == PortState::Active;
  }
  return false;
}

[[nodiscard]] bool is_allowed_physical(const PortInfo& wanted) {
  return wanted.physical_state <= PhysicalState::Disabled &&
         wanted.link_down_default_state <= PhysicalState::Polling &&
         // Both in one Set only for Down together with the down state to enter.
         (wanted.physical_state == PhysicalState::NoChange ||
          wanted.port_state == LinkState::NoChange || wanted.port_state == LinkState::Down);
}

/// The LMC is valid together with a LID; an LMC from the topology file applies once there is one.
[[nodiscard]] std::uint8_t lmc_of(const PortRecord& record) {
  return record.lid == Lid{} ? std::uint8_t{0} : record.lmc;
}

/// Checks LIDs, M_Key and the like, which only HCA ports and port 0 of a switch have.
[[nodiscard]] bool is_valid_management_part(const PortInfo& wanted, const PortRecord& now) {
  const bool keeps_lid = wanted.lid == now.lid && wanted.lmc == lmc_of(now);
  const std::uint32_t lids = 1U << wanted.lmc;
  const bool is_valid_lid = wanted.lid.is_unicast() && wanted.lid.value() % lids == 0 &&
                            Lid{wanted.lid.value() + lids - 1}.is_unicast() &&
                            (!now.is_switch_port() || wanted.lmc == 0);
  const bool is_valid_sm_lid =
      wanted.master_sm_lid == now.sm_lid || wanted.master_sm_lid.is_unicast();
  return (keeps_lid || is_valid_lid) && is_valid_sm_lid;
}

[[nodiscard]] bool is_valid_link_part(const PortInfo& wanted, const PortRecord& now,
                                      const PortAgent& port) {
  const std::uint8_t speeds = supported_speeds(port.best);
  const std::uint8_t extended = supported_extended_speeds(port.best);
  const bool is_valid_speed = wanted.link_speed_enabled == kEverySupportedSpeed ||
                              (wanted.link_speed_enabled & ~speeds) == 0;
  const bool is_valid_extended = wanted.link_speed_ext_enabled == kEverySupportedExtended ||
                                 wanted.link_speed_ext_enabled == kNoExtendedSpeed ||
                                 (wanted.link_speed_ext_enabled & ~extended) == 0;
  return is_allowed_width(wanted.link_width_enabled, supported_widths(port.best)) &&
         is_valid_speed && is_valid_extended && is_allowed_state(wanted.port_state, now.state) &&
         is_allowed_physical(wanted) && wanted.neighbor_mtu >= verbs::Mtu::Mtu256 &&
         wanted.neighbor_mtu <= now.max_mtu && wanted.operational_vls <= kVlCap;
}

void assign(Flags<PortAgentFlag>& flags, PortAgentFlag flag, bool is_set) {
  flags = is_set ? flags | flag : flags.without(flag);
}

}  // namespace

PortInfo FabricAgents::port_info(PortIndex index) const {
  const PortRecord& record = tables_.port(index);
  const PortAgent& port = agent(index);
  PortInfo info{.gid_prefix = 0, .capability_mask = port.capabilities};
  if (is_management_port(record)) {
    info.mkey = port.mkey;
    info.gid_prefix = port.gid_prefix;
    info.lid = record.is_omni_path() ? Lid{} : record.lid;  // of 24 bits
    info.master_sm_lid = record.sm_lid;
    info.master_sm_sl = record.sm_sl;
    info.mkey_lease_period = port.mkey_lease_period;
    info.mkey_protect_bits = port.mkey_protect_bits;
    info.lmc = lmc_of(record);
    info.mkey_violations = port.mkey_violations;
    info.pkey_violations = port.pkey_violations;
    info.qkey_violations = port.qkey_violations;
    info.guid_cap = record.is_switch_port() ? std::uint8_t{1} : port.guid_cap;
    info.subnet_timeout = port.subnet_timeout;
    info.init_type = port.init_type;
    info.init_type_reply = port.init_type_reply;
    info.capability_mask2 = kCapabilities2;
    info.multicast_pkey_trap_suppression = port.multicast_pkey_trap_suppression;
  }
  info.local_port = record.number;
  info.link_width_enabled = port.width_enabled;
  info.link_width_supported = supported_widths(port.best);
  info.link_width_active = record.active_width != 0 ? record.active_width : port.best.width;
  info.link_speed_supported = supported_speeds(port.best);
  info.link_speed_enabled = port.speed_enabled;
  info.link_speed_active = record.active_speed != 0 ? record.active_speed : port.best.speed;
  info.link_speed_ext_supported = supported_extended_speeds(port.best);
  info.link_speed_ext_enabled = port.extended_enabled;
  info.link_speed_ext_active = record.active_speed_extended;
  info.port_state = wire::link_state_of(record.state);
  info.physical_state = port.physical;
  info.link_down_default_state = port.down_default;
  info.neighbor_mtu = record.active_mtu;
  info.mtu_cap = record.max_mtu;
  info.vl_cap = kVlCap;
  info.operational_vls = port.operational_vls;
  info.vl_high_limit = port.vl_high_limit;
  info.vl_arbitration_high_cap = kVlArbitrationCap;
  info.vl_arbitration_low_cap = kVlArbitrationCap;
  info.vl_stall_count = port.vl_stall_count;
  info.hoq_lifetime = port.hoq_lifetime;
  info.partition_enforcement_inbound = port.flags.has(PortAgentFlag::PartitionEnforcementInbound);
  info.partition_enforcement_outbound = port.flags.has(PortAgentFlag::PartitionEnforcementOutbound);
  info.filter_raw_inbound = port.flags.has(PortAgentFlag::FilterRawInbound);
  info.filter_raw_outbound = port.flags.has(PortAgentFlag::FilterRawOutbound);
  info.local_phy_errors = port.local_phy_errors;
  info.overrun_errors = port.overrun_errors;
  return info;
}

/// A modifier names a switch's port by number. For an HCA it is 0 for the queried port, or the
/// number of any of its ports.
std::optional<PortIndex> FabricAgents::port_named(const Request& request,
                                                  std::uint32_t number) const {
  const PortRecord& own = tables_.port(request.own);
  if (own.is_switch_port()) {
    const PortIndex port =
        number > 0xFF ? fabric::kNoPort
                      : port_of_switch(own.node, PortNumber{static_cast<std::uint8_t>(number)});
    return port == fabric::kNoPort ? std::nullopt : std::optional{port};
  }
  const fabric::HcaRecord& hca = tables_.hcas()[own.hca.value()];
  if (number == 0) {
    return request.own;
  }
  return number <= hca.port_count ? std::optional{PortIndex{hca.first_port.value() + number - 1}}
                                  : std::nullopt;
}

std::uint16_t FabricAgents::get_port_info(Request& request) {
  const auto port = port_named(request, request.modifier & ~kSmSupportsExtendedSpeeds);
  if (!port) {
    std::ranges::fill(request.data, std::byte{});
    return wire::kMadStatusInvalidField;
  }
  PortInfo info = port_info(*port);
  info.local_port = tables_.port(request.at).number;
  // §14.2.4: a reader that does not know the key gets 0, unless the key is unprotected.
  const PortAgent& key_holder = agent(management_port(*port));
  if (key_holder.mkey_protect_bits != 0 && key_holder.mkey != request.mkey) {
    info.mkey = 0;
  }
  wire::pack(info, request.data);
  return 0;
}

/// Links have no forward error correction, so there is nothing to set.
std::uint16_t FabricAgents::get_port_info_extended(Request& request) {
  const bool is_there = port_named(request, request.modifier).has_value();
  std::ranges::fill(request.data, std::byte{});
  wire::pack(wire::PortInfoExtended{}, request.data.first<wire::kSizeOf<wire::PortInfoExtended>>());
  return is_there ? std::uint16_t{0} : wire::kMadStatusInvalidField;
}

std::uint16_t FabricAgents::set_port_info(Request& request) {
  const auto port = port_named(request, request.modifier & ~kSmSupportsExtendedSpeeds);
  const auto wanted = wire::unpack<PortInfo>(request.data);
  const auto refuse = [&] {
    static_cast<void>(get_port_info(request));
    return wire::kMadStatusInvalidField;
  };
  if (!port) {
    return refuse();
  }
  const PortRecord& record = tables_.port(*port);
  const bool is_managed = is_management_port(record);
  const bool has_link = !record.is_switch_port() || record.number != PortNumber{};
  // The M_Key of another port of the HCA must match, too.
  const bool knows_key = !is_managed || agent(*port).mkey == 0 || agent(*port).mkey == request.mkey;
  if (!knows_key || (is_managed && !is_valid_management_part(wanted, record)) ||
      (has_link && !is_valid_link_part(wanted, record, agent(*port)))) {
    return refuse();
  }
  if (is_managed) {
    write_management_part(*port, wanted);
    request.mkey = wanted.mkey;  // the response shows what was written
  }
  if (has_link) {
    write_link_part(*port, wanted);
  }
  const std::uint16_t status = get_port_info(request);
  if (is_managed && wanted.client_reregister) {
    auto info = wire::unpack<PortInfo>(request.data);
    info.client_reregister = true;
    wire::pack(info, request.data);
  }
  return status;
}

Result<void> FabricAgents::configure(PortIndex index, const PortSettings& settings, Instant now) {
  const PortRecord& record = tables_.port(index);
  if (record.is_switch_port() && record.number == PortNumber{}) {
    return fail(ErrorCode::InvalidArgument,
                "port 0 of a switch has no link; its ports count from 1");
  }
  PortInfo wanted = port_info(index);
  if (!is_allowed_state(settings.state, record.state)) {
    return fail(
        ErrorCode::InvalidArgument,
        "a port in {} cannot be set to {}: Initialize, Armed, Active is the order, and Down "
        "is always possible",
        name_of(record.state), name_of(wire::port_state_of(settings.state).value_or(record.state)));
  }
  wanted.port_state = settings.state;
  wanted.physical_state = settings.physical;
  wanted.link_width_enabled = settings.width_enabled;
  wanted.link_speed_enabled = settings.speed_enabled;
  wanted.link_speed_ext_enabled = settings.extended_enabled;
  if (!is_valid_link_part(wanted, record, agent(index))) {
    return fail(ErrorCode::InvalidArgument,
                "the port supports the widths {:#x}, speeds {:#x} and extended speeds {:#x} (bits "
                "of PortInfo)",
                supported_widths(agent(index).best), supported_speeds(agent(index).best),
                supported_extended_speeds(agent(index).best));
  }
  write_link_part(index, wanted);
  finish_sets(now);
  return {};
}

void FabricAgents::write_management_part(PortIndex index, const PortInfo& wanted) {
  const PortRecord before = tables_.port(index);
  PortAgent& port = agent(index);
  port.mkey = wanted.mkey;
  port.mkey_protect_bits = wanted.mkey_protect_bits;
  port.mkey_lease_period = wanted.mkey_lease_period;
  port.lease_ends = Instant::never();
  port.init_type_reply = wanted.init_type_reply;
  port.subnet_timeout = wanted.subnet_timeout;
  port.multicast_pkey_trap_suppression = wanted.multicast_pkey_trap_suppression;
  // Violation counters can be reset, but not set to a value.
  port.mkey_violations = wanted.mkey_violations == 0 ? std::uint16_t{0} : port.mkey_violations;
  port.pkey_violations = wanted.pkey_violations == 0 ? std::uint16_t{0} : port.pkey_violations;
  port.qkey_violations = wanted.qkey_violations == 0 ? std::uint16_t{0} : port.qkey_violations;
  if (port.gid_prefix != wanted.gid_prefix) {
    port.gid_prefix = wanted.gid_prefix;
    std::vector<Gid> gids;
    for (const Gid& gid : tables_.gids(index)) {
      gids.emplace_back(wanted.gid_prefix, gid.interface_id());
    }
    tables_.set_gids(index, gids);
    tables_changed_ = true;
  }
  if (before.lid != wanted.lid || lmc_of(before) != wanted.lmc) {
    tables_.set_lid(index, wanted.lid, wanted.lmc);
    tables_changed_ = true;
  }
  if (before.sm_lid != wanted.master_sm_lid || before.sm_sl != wanted.master_sm_sl) {
    tables_.set_subnet_manager(index, wanted.master_sm_lid, wanted.master_sm_sl);
    tables_changed_ = true;
  }
  if (wanted.client_reregister) {
    tables_.request_reregistration(index);
    tables_changed_ = true;
  }
}

void FabricAgents::write_link_part(PortIndex index, const PortInfo& wanted) {
  const PortRecord before = tables_.port(index);
  PortAgent& port = agent(index);
  if (wanted.link_width_enabled != 0) {
    port.width_enabled = wanted.link_width_enabled == kEverySupportedWidth
                             ? supported_widths(port.best)
                             : wanted.link_width_enabled;
  }
  if (wanted.link_speed_enabled != 0) {
    port.speed_enabled = wanted.link_speed_enabled == kEverySupportedSpeed
                             ? supported_speeds(port.best)
                             : wanted.link_speed_enabled;
  }
  if (wanted.link_speed_ext_enabled == kNoExtendedSpeed) {
    port.extended_enabled = 0;
  } else if (wanted.link_speed_ext_enabled != 0) {
    port.extended_enabled = wanted.link_speed_ext_enabled == kEverySupportedExtended
                                ? supported_extended_speeds(port.best)
                                : wanted.link_speed_ext_enabled;
  }
  if (wanted.link_down_default_state != PhysicalState::NoChange) {
    port.down_default = wanted.link_down_default_state;
  }
  port.vl_high_limit = wanted.vl_high_limit;
  port.vl_stall_count = wanted.vl_stall_count;
  port.hoq_lifetime = wanted.hoq_lifetime;
  port.local_phy_errors = wanted.local_phy_errors;
  port.overrun_errors = wanted.overrun_errors;
  if (wanted.operational_vls != 0) {
    port.operational_vls = wanted.operational_vls;
  }
  assign(port.flags, PortAgentFlag::PartitionEnforcementInbound,
         wanted.partition_enforcement_inbound);
  assign(port.flags, PortAgentFlag::PartitionEnforcementOutbound,
         wanted.partition_enforcement_outbound);
  assign(port.flags, PortAgentFlag::FilterRawInbound, wanted.filter_raw_inbound);
  assign(port.flags, PortAgentFlag::FilterRawOutbound, wanted.filter_raw_outbound);
  if (before.active_mtu != wanted.neighbor_mtu) {
    tables_.set_active_mtu(index, wanted.neighbor_mtu);
    tables_changed_ = true;
  }
  if (wanted.port_state == LinkState::Armed || wanted.port_state == LinkState::Active) {
    const PortState state = *wire::port_state_of(wanted.port_state);
    tables_changed_ |= state != before.state;
    tables_.set_state(index, state);
  }
  if (wanted.port_state == LinkState::Down || wanted.physical_state != PhysicalState::NoChange) {
    link_changes_.push_back({.port = index, .physical = wanted.physical_state});
  }
}

}  // namespace weft::agents
