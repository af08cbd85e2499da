// Attributes of a whole node: NodeInfo, NodeDescription, SwitchInfo, LedInfo, VendorDiag.

#include <fmt/format.h>

#include <algorithm>

#include "agents/fabric_agents.h"
#include "base/assert.h"
#include "wire/mad/notice_details.h"
#include "wire/mad/port_tables.h"

namespace weft::agents {

using fabric::PortIndex;
using fabric::PortRecord;

namespace {

constexpr std::byte kLedBit{0x80};  // LedMask, the first bit of LedInfo (§14.2.5.14)

}  // namespace

wire::NodeInfo FabricAgents::node_info(PortIndex at) const {
  const PortRecord& port = tables_.port(at);
  const fabric::NodeRecord& node = tables_.node(port.node);
  wire::NodeInfo info{.partition_cap = kPartitionCap,
                      .revision = 1,
                      .local_port = port.number,
                      .vendor_id = kVendorId};
  if (port.is_switch_port()) {
    info.node_type = wire::NodeType::Switch;
    info.port_count = static_cast<std::uint8_t>(node.port_count - 1);
    info.system_image_guid = info.node_guid = info.port_guid = node.guid;
    info.device_id = kSwitchDeviceId;
    return info;
  }
  const fabric::HcaRecord& hca = tables_.hcas()[port.hca.value()];
  info.port_count = static_cast<std::uint8_t>(hca.port_count);
  const auto image = system_images_.find(port.hca);
  info.system_image_guid = image != system_images_.end() ? image->second : hca.system_image_guid;
  info.node_guid = hca.guid;
  info.port_guid = port.guid;
  info.device_id = kHcaDeviceId;
  return info;
}

std::uint16_t FabricAgents::get_node_info(Request& request) {
  std::ranges::fill(request.data, std::byte{});
  wire::pack(node_info(request.at), request.data.first<wire::kSizeOf<wire::NodeInfo>>());
  return 0;
}

/// Default, unless it was set: the name of a switch, or those of host and HCA as Linux sets them.
wire::NodeDescription FabricAgents::node_description(PortIndex port) const {
  const PortIndex own = management_port(port);
  if (const auto written = descriptions_.find(own); written != descriptions_.end()) {
    return written->second;
  }
  const PortRecord& record = tables_.port(own);
  const std::string_view name = tables_.name(tables_.node(record.node));
  wire::NodeDescription description;
  const auto write = [&](std::size_t at, std::string_view text) {
    const std::size_t room = description.text.size() - at;
    std::ranges::transform(text.substr(0, room),
                           description.text.begin() + static_cast<std::ptrdiff_t>(at),
                           [](char letter) { return static_cast<std::byte>(letter); });
    return at + std::min(text.size(), room);
  };
  const std::size_t end = write(0, name);
  if (!record.is_switch_port()) {
    write(write(end, " "), tables_.name(tables_.hcas()[record.hca.value()]));
  }
  return description;
}

std::uint16_t FabricAgents::get_node_description(Request& request) {
  wire::pack(node_description(request.own), request.data);
  return 0;
}

std::uint16_t FabricAgents::set_node_description_attribute(Request& request) {
  descriptions_[request.own] = wire::unpack<wire::NodeDescription>(request.data);
  return get_node_description(request);
}

Result<void> FabricAgents::set_node_description(PortIndex port, std::string_view text,
                                                Instant now) {
  wire::NodeDescription description;
  if (text.size() > description.text.size()) {
    return fail(ErrorCode::InvalidArgument, "a node description has at most {} bytes, not {}",
                description.text.size(), text.size());
  }
  std::ranges::transform(text, description.text.begin(),
                         [](char letter) { return static_cast<std::byte>(letter); });
  if (node_description(port) == description) {
    return {};
  }
  descriptions_[management_port(port)] = description;
  report_local_change(management_port(port), true, now);
  return {};
}

void FabricAgents::set_is_sm(PortIndex port, bool is_sm, Instant now) {
  const wire::PortCapabilities bit{wire::PortCapability::IsSm};
  change_capabilities(port, is_sm ? bit : wire::PortCapabilities{},
                      is_sm ? wire::PortCapabilities{} : bit, now);
}

void FabricAgents::set_is_device_management(PortIndex port, bool answers, Instant now) {
  const wire::PortCapabilities bit{wire::PortCapability::IsDeviceManagementSupported};
  change_capabilities(port, answers ? bit : wire::PortCapabilities{},
                      answers ? wire::PortCapabilities{} : bit, now);
}

void FabricAgents::change_capabilities(PortIndex port, wire::PortCapabilities set,
                                       wire::PortCapabilities cleared, Instant now) {
  PortAgent& own = agent(management_port(port));
  const wire::PortCapabilities wanted = (own.capabilities | set).without(cleared);
  if (wanted == own.capabilities) {
    return;
  }
  own.capabilities = wanted;
  report_local_change(management_port(port), false, now);
}

void FabricAgents::set_init_type(PortIndex port, std::uint8_t type) {
  constexpr std::uint8_t kBits = 0xF;
  agent(management_port(port)).init_type = type & kBits;
}

void FabricAgents::set_guid_cap(PortIndex port, std::uint8_t entries, Instant now) {
  WEFT_ASSERT(!tables_.port(port).is_switch_port() && entries % wire::GuidInfo{}.guids.size() == 0,
              "an HCA port has whole blocks");
  if (agent(port).guid_cap == entries) {
    return;
  }
  agent(port).guid_cap = entries;
  report_local_change(port, false, now);
}

void FabricAgents::reset_qkey_violations(PortIndex port) {
  agent(management_port(port)).qkey_violations = 0;
}

void FabricAgents::set_system_image_guid(PortIndex port, Guid guid, Instant now) {
  const PortIndex own = management_port(port);
  if (node_info(own).system_image_guid == guid) {
    return;
  }
  system_images_[tables_.port(own).hca] = guid;
  raise(own, wire::NoticeType::Informational, wire::Trap::SystemImageGuidChange,
        wire::pack(wire::SystemImageGuidNoticeDetails{.lid = tables_.port(own).lid,
                                                      .system_image_guid = guid}),
        now);
}

/// Raises trap 144.
void FabricAgents::report_local_change(PortIndex port, bool node_description_changed, Instant now) {
  const wire::CapabilityNoticeDetails details{.lid = tables_.port(port).lid,
                                              .other_local_changes = node_description_changed,
                                              .capability_mask = agent(port).capabilities.bits(),
                                              .node_description_change = node_description_changed};
  raise(port, wire::NoticeType::Informational, wire::Trap::CapabilityMaskChange,
        wire::pack(details), now);
}

wire::SwitchInfo FabricAgents::switch_info(fabric::NodeIndex node) const {
  const SwitchAgent& own = switch_agent(node);
  return {.linear_fdb_cap = kLinearFdbCap,
          .multicast_fdb_cap = kMulticastFdbCap,
          .linear_fdb_top = own.linear_fdb_top,
          .default_port = own.default_port,
          .default_multicast_primary_port = own.default_multicast_primary_port,
          .default_multicast_not_primary_port = own.default_multicast_not_primary_port,
          .lifetime_exponent = own.life_time,
          .port_state_change = own.port_state_change};
}

std::uint16_t FabricAgents::get_switch_info(Request& request) {
  std::ranges::fill(request.data, std::byte{});
  wire::pack(switch_info(tables_.port(request.own).node),
             request.data.first<wire::kSizeOf<wire::SwitchInfo>>());
  return 0;
}

std::uint16_t FabricAgents::set_switch_info(Request& request) {
  const auto wanted =
      wire::unpack<wire::SwitchInfo>(request.data.first<wire::kSizeOf<wire::SwitchInfo>>());
  const fabric::NodeIndex node = tables_.port(request.own).node;
  if (wanted.linear_fdb_top >= kLinearFdbCap) {
    static_cast<void>(get_switch_info(request));
    return wire::kMadStatusInvalidField;
  }
  SwitchAgent& own = switch_agent(node);
  if (own.linear_fdb_top != wanted.linear_fdb_top) {
    own.linear_fdb_top = wanted.linear_fdb_top;
    tables_.set_forwarding_top(node, Lid{wanted.linear_fdb_top});
    tables_changed_ = true;
  }
  own.default_port = wanted.default_port;
  own.default_multicast_primary_port = wanted.default_multicast_primary_port;
  own.default_multicast_not_primary_port = wanted.default_multicast_not_primary_port;
  own.life_time = wanted.lifetime_exponent;
  if (wanted.port_state_change) {  // writing 1 clears it
    own.port_state_change = false;
  }
  return get_switch_info(request);
}

std::uint16_t FabricAgents::get_led_info(Request& request) {
  std::ranges::fill(request.data, std::byte{});
  request.data[0] = agent(request.own).flags.has(PortAgentFlag::Led) ? kLedBit : std::byte{};
  return 0;
}

std::uint16_t FabricAgents::set_led_info(Request& request) {
  Flags<PortAgentFlag>& flags = agent(request.own).flags;
  const bool is_on = (request.data[0] & kLedBit) != std::byte{};
  flags = is_on ? flags | PortAgentFlag::Led : flags.without(PortAgentFlag::Led);
  return get_led_info(request);
}

/// No diagnostic data: NextIndex and DiagData are zero (§14.2.5.15).
std::uint16_t FabricAgents::get_vendor_diag(Request& request) {
  std::ranges::fill(request.data, std::byte{});
  return request.modifier == 0 ? 0 : wire::kMadStatusInvalidField;
}

}  // namespace weft::agents
