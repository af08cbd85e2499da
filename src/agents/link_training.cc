// FabricAgents: link training (IBTA vol 1 §5.2.8, §7.2), which takes no time here.

#include "agents/fabric_agents.h"
#include "agents/link_speeds.h"
#include "wire/mad/notice_details.h"

namespace weft::agents {

using fabric::PortIndex;
using fabric::PortRecord;
using fabric::PortState;
using wire::PhysicalState;

namespace {

[[nodiscard]] EnabledSpeeds enabled(const PortAgent& port) {
  return {.widths = port.width_enabled,
          .speeds = port.speed_enabled,
          .extended = port.extended_enabled};
}

}  // namespace

void FabricAgents::power_on() {
  for (std::uint32_t i = 0; i < ports_.size(); ++i) {
    const PortRecord& record = tables_.port(PortIndex{i});
    if (record.peer != fabric::kNoPort) {
      ports_[i].physical = PhysicalState::LinkUp;
      tables_.set_state(PortIndex{i}, PortState::Initialize);
    } else if (record.is_switch_port() && record.number == PortNumber{}) {
      ports_[i].physical = PhysicalState::LinkUp;
      tables_.set_state(PortIndex{i}, PortState::Active);
    }
  }
}

/// Takes the link of a port down, at both ends.
void FabricAgents::take_down(PortIndex port, Instant now) {
  const PortIndex peer = tables_.port(port).peer;
  if (peer == fabric::kNoPort) {
    return;
  }
  for (const PortIndex end : {port, peer}) {
    if (agent(end).physical == PhysicalState::LinkUp) {
      agent(end).physical = agent(end).down_default;
    }
    if (tables_.port(end).state == PortState::Down) {
      continue;
    }
    tables_.set_state(end, PortState::Down);
    tables_changed_ = true;
    ++port_counters_.own(end).link_downed;
    if (!tables_.port(end).is_switch_port()) {
      traps_.forget(end);
    }
    report_link_change(end, now);
  }
}

/// Brings the link up if both ends are polling and agree on a speed.
void FabricAgents::train(PortIndex port, Instant now) {
  const PortIndex peer = tables_.port(port).peer;
  if (peer == fabric::kNoPort || tables_.port(port).state != PortState::Down ||
      !agent(port).is_polling() || !agent(peer).is_polling()) {
    return;
  }
  const auto speed = negotiate(enabled(agent(port)), enabled(agent(peer)), agent(port).best);
  if (!speed) {
    return;
  }
  tables_.set_link_speed(port, *speed);
  tables_changed_ = true;
  for (const PortIndex end : {port, peer}) {
    agent(end).physical = PhysicalState::LinkUp;
    tables_.set_state(end, PortState::Initialize);
    report_link_change(end, now);
  }
}

/// Switches report link changes to the subnet manager (trap 128). An HCA port need not, since its
/// peer does.
void FabricAgents::report_link_change(PortIndex port, Instant now) {
  const PortRecord& record = tables_.port(port);
  if (!record.is_switch_port()) {
    return;
  }
  switch_agent(record.node).port_state_change = true;
  const PortIndex own = management_port(port);
  raise(own, wire::NoticeType::Urgent, wire::Trap::LinkStateChange,
        wire::pack(wire::LinkStateNoticeDetails{.switch_lid = tables_.port(own).lid}), now);
}

void FabricAgents::set_plugged(PortIndex port, bool is_plugged, Instant now) {
  const PortIndex peer = tables_.port(port).peer;
  if (peer == fabric::kNoPort) {
    return;
  }
  for (const PortIndex end : {port, peer}) {
    Flags<PortAgentFlag>& flags = agent(end).flags;
    flags = is_plugged ? flags.without(PortAgentFlag::Unplugged) : flags | PortAgentFlag::Unplugged;
  }
  if (is_plugged) {
    train(port, now);
  } else {
    take_down(port, now);
  }
}

void FabricAgents::finish_sets(Instant now) {
  // Nothing below requests further changes.
  for (const LinkChange& change : link_changes_) {
    take_down(change.port, now);
    if (change.physical != PhysicalState::NoChange) {
      agent(change.port).physical = change.physical;
    }
    train(change.port, now);
  }
  link_changes_.clear();
}

}  // namespace weft::agents
