#include "agents/fabric_agents.h"

#include <algorithm>
#include <utility>

#include "agents/directed_route.h"
#include "agents/link_speeds.h"
#include "fabric/walk.h"

namespace weft::agents {

using fabric::PortIndex;
using fabric::PortRecord;
using wire::PortCapability;

namespace {

/// Capabilities that every management port reports; subnet managers may test for any of them.
constexpr wire::PortCapabilities kCapabilities =
    wire::PortCapabilities{PortCapability::IsTrapSupported} | PortCapability::IsSlMappingSupported |
    PortCapability::IsLedInfoSupported | PortCapability::IsSystemImageGuidSupported |
    PortCapability::IsExtendedSpeedsSupported | PortCapability::IsCapabilityMask2Supported |
    PortCapability::IsCommunicationManagementSupported | PortCapability::IsDrNoticeSupported |
    PortCapability::IsCapabilityMaskNoticeSupported |
    PortCapability::IsClientReregistrationSupported |
    PortCapability::IsOtherLocalChangesNoticeSupported;

}  // namespace

FabricAgents::FabricAgents(fabric::TablesBuilder& tables, fabric::CounterSource& counters,
                           TimeScale scale)
    : tables_(tables),
      scale_(scale),
      ports_(tables.ports().size()),
      port_counters_(counters),
      pma_(tables, counters) {
  counters.resize(ports_.size());
  const auto nodes = tables.nodes();
  first_switch_ = static_cast<std::uint32_t>(
      std::distance(nodes.begin(),
                    std::ranges::find(nodes, fabric::NodeKind::Switch, &fabric::NodeRecord::kind)));
  switches_.resize(nodes.size() - first_switch_);
  for (std::uint32_t i = 0; i < ports_.size(); ++i) {
    set_up_port(i);
  }
  power_on();
}

void FabricAgents::set_up_port(std::uint32_t index) {
  const PortRecord& record = tables_.port(PortIndex{index});
  PortAgent& port = ports_[index];
  if (!record.is_switch_port()) {
    port.capabilities = kCapabilities | PortCapability::IsAutomaticMigrationSupported;
  } else if (record.number == PortNumber{}) {
    port.capabilities = kCapabilities;
  }
  if (!tables_.gids(PortIndex{index}).empty()) {
    port.gid_prefix = tables_.gids(PortIndex{index}).front().prefix();
  }
  set_cable(index);
  port.width_enabled = supported_widths(port.best);
  port.speed_enabled = supported_speeds(port.best);
  port.extended_enabled = supported_extended_speeds(port.best);
}

/// Sets the best speed of a port from its cable.
void FabricAgents::set_cable(std::uint32_t index) {
  const PortRecord& record = tables_.port(PortIndex{index});
  ports_[index].best = record.peer == fabric::kNoPort
                           ? kUnlimitedLink
                           : fabric::LinkSpeed{.rate_mbps = record.rate_mbps,
                                               .width = record.active_width,
                                               .speed = record.active_speed,
                                               .extended = record.active_speed_extended};
}

void FabricAgents::grow(Instant now) {
  const auto before = static_cast<std::uint32_t>(ports_.size());
  ports_.resize(tables_.ports().size());
  switches_.resize(tables_.nodes().size() - first_switch_);
  port_counters_.resize(ports_.size());
  for (std::uint32_t i = before; i < ports_.size(); ++i) {
    set_up_port(i);
    const PortRecord& record = tables_.port(PortIndex{i});
    if (record.is_switch_port() && record.number == PortNumber{}) {
      ports_[i].physical = wire::PhysicalState::LinkUp;
      tables_.set_state(PortIndex{i}, fabric::PortState::Active);
    }
  }
  for (std::uint32_t i = before; i < ports_.size(); ++i) {
    if (const PortIndex peer = tables_.port(PortIndex{i}).peer; peer != fabric::kNoPort) {
      set_cable(peer.value());
      agent(peer).flags = agent(peer).flags.without(PortAgentFlag::Unplugged);
      train(PortIndex{i}, now);
    }
  }
  tables_changed_ = true;
}

void FabricAgents::power_off(fabric::NodeIndex node, Instant now) {
  const fabric::NodeRecord& record = tables_.node(node);
  for (std::uint32_t i = 0; i < record.port_count; ++i) {
    take_down(PortIndex{record.first_port.value() + i}, now);
  }
  for (std::uint32_t i = 0; i < record.port_count; ++i) {
    traps_.forget(PortIndex{record.first_port.value() + i});
  }
  tables_changed_ = true;
}

Outcome FabricAgents::handle(PortIndex at, mad::InterfaceKind kind, mad::MadBytes& mad,
                             Instant now) {
  const auto header =
      wire::unpack<wire::MadHeader>(std::span{mad}.first<wire::kSizeOf<wire::MadHeader>>());
  if (!mad::belongs_to(header.mgmt_class, kind)) {
    return Outcome::Consumed;  // IBTA vol 1 §13.5.1: never answered
  }
  if (kind == mad::InterfaceKind::Smi) {
    return handle_smp(at, mad, now);
  }
  const bool is_answered = header.mgmt_class == wire::ManagementClass::Perf &&
                           pma_.handle(management_port(at), mad, now);
  return is_answered ? Outcome::Answered : Outcome::NotHandled;
}

carriage::SmiStep FabricAgents::next_step(carriage::DirectedSmp& smp) const {
  return agents::next_step(tables_, smp);
}

PortIndex FabricAgents::management_port(PortIndex port) const {
  return fabric::management_port(tables_, port);
}

PortIndex FabricAgents::port_of_switch(fabric::NodeIndex node, PortNumber number) const {
  return fabric::port_of_switch(tables_, node, number);
}

bool FabricAgents::take_tables_changed() { return std::exchange(tables_changed_, false); }

}  // namespace weft::agents
