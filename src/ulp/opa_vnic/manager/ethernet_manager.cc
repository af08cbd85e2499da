#include "ulp/opa_vnic/manager/ethernet_manager.h"

#include <algorithm>
#include <utility>

namespace weft::opa_vnic {

using wire::MadMethod;
using wire::VemaAttribute;

EthernetManager::EthernetManager(const ManagerAddress& address, std::uint64_t seed,
                                 const ManagerLimits& limits)
    : address_(address), limits_(limits), next_transaction_(seed << 32 | 1) {}

void EthernetManager::set_config(ManagerConfig config, Instant now) {
  // Members keep their state where nothing changed for them; what stays to be deleted has no
  // switch.
  std::vector<Member> old = std::move(members_);
  members_.clear();
  const ManagerConfig before = std::exchange(config_, std::move(config));
  const auto is_same_switch = [&](std::size_t from, std::size_t to) {
    SwitchConfig was = before.switches[from];
    was.members = config_.switches[to].members;
    return was == config_.switches[to];
  };
  for (std::size_t s = 0; s < config_.switches.size(); ++s) {
    const auto& members = config_.switches[s].members;
    for (std::size_t i = 0; i < members.size(); ++i) {
      Member member{};
      const auto kept = std::ranges::find_if(old, [&](const Member& one) {
        return one.config == members[i] && one.index == i && is_same_switch(one.switch_index, s);
      });
      if (kept != old.end()) {
        member = std::move(*kept);
        old.erase(kept);
      }
      member.switch_index = s;
      member.index = i;
      member.config = members[i];
      members_.push_back(std::move(member));
    }
  }
  for (Member& gone : old) {
    const auto again = std::ranges::find_if(members_, [&](const Member& one) {
      return one.config.port == gone.config.port && one.config.vport == gone.config.vport;
    });
    if (again == members_.end() && gone.state != MemberState::Gone) {
      members_.push_back(std::move(gone));
      step(members_.back(), MemberEvent::Removed, now);
    }
  }
  std::erase_if(members_, [](const Member& one) { return one.state == MemberState::Gone; });
  std::vector<FabricPort> ports;
  for (const auto& [guid, port] : ports_) {
    ports.push_back(port);
  }
  set_ports(ports, now);
}

void EthernetManager::set_ports(std::span<const FabricPort> ports, Instant now) {
  ports_.clear();
  for (const FabricPort& port : ports) {
    if (port.has_ethernet_on_fabric && port.lid != 0) {
      ports_.emplace(port.guid, port);
    }
  }
  for (Member& member : members_) {
    const auto port = ports_.find(member.config.port);
    const std::uint32_t lid = port == ports_.end() ? 0 : port->second.lid;
    if (lid == member.lid) {
      continue;
    }
    if (member.lid != 0) {
      step(member, MemberEvent::Vanished, now);
    }
    member.lid = lid;
    if (lid != 0) {
      step(member, MemberEvent::Appeared, now);
    }
  }
  update_tables(now);
}

void EthernetManager::step(Member& member, MemberEvent event, Instant now) {
  const auto next = next_state(member.state, event);
  if (!next) {
    return;
  }
  member.state = *next;
  enter(member, now);
}

/// Does what a state begins with.
void EthernetManager::enter(Member& member, Instant now) {
  member.transaction = kNoTransaction;
  member.deadline = Instant::never();
  switch (member.state) {
    case MemberState::Absent:
    case MemberState::Gone:
      member.digest = 0;
      member.old_entries.reset();
      member.has_lists = false;
      member.is_told = false;
      member.reported.clear();
      return;
    case MemberState::Running:
      member.has_lists = true;
      member.deadline = std::exchange(member.is_told, false) ? now : now + limits_.interval;
      return;
    case MemberState::Retry:
      ++counters_.failures;
      if (!member.writing.empty()) {
        member.digest = 0;  // what it has is a part of the table
        member.old_entries.reset();
      }
      // It must not keep the others waiting for what it has to tell.
      member.has_lists = true;
      member.deadline = now + limits_.retry;
      return;
    case MemberState::WriteTable:
      if (member.writing.empty() && member.written == 0) {
        member.writing = table_of(member);
        // What was there behind the new table's end is deleted.
        const std::size_t old = member.old_entries.value_or(wire::kMaxMacTableEntries);
        member.old_entries = member.writing.size();
        member.digest = digest_of(member.writing);
        member.writing.resize(std::max({member.writing.size(), old, std::size_t{1}}));
      }
      break;
    case MemberState::ReadClass:
      member.page_macs.clear();
      member.page_restarts = 0;
      member.writing.clear();
      member.written = 0;
      break;
    case MemberState::SetClass:
    case MemberState::ReadInfo:
    case MemberState::SetDropAll:
    case MemberState::SetForwarding:
    case MemberState::ReadSummary:
    case MemberState::ReadErrors:
    case MemberState::ReadUnicast:
    case MemberState::ReadMulticast:
    case MemberState::Deleting:
      member.writing.clear();
      member.written = 0;
      break;
  }
  member.tries = 0;
  form_request(member);
  send(member, now);
}

void EthernetManager::send(Member& member, Instant now) {
  if (member.tries++ == 0) {
    ++counters_.requests;
    member.transaction = next_transaction_++;
    member.request.header.transaction_id = member.transaction;
  } else {
    ++counters_.repeats;
  }
  member.deadline = now + limits_.answer;
  out_.push_back({.lid = Lid{member.lid}, .mad = member.request});
}

void EthernetManager::handle_mad(Lid from, ByteSpan bytes, Instant now) {
  const auto mad = wire::parse<wire::VemaMad>(bytes);
  if (!mad || bytes.size() != wire::kOpaMadBytes || mad->header.mgmt_class != wire::kVemaClass ||
      mad->oui != wire::kVemaOui) {
    ++counters_.ignored;
    return;
  }
  if (mad->header.method == MadMethod::Trap && mad->attribute() == VemaAttribute::Notice) {
    return handle_trap(from, *mad, now);
  }
  const auto waiting = std::ranges::find_if(members_, [&](const Member& member) {
    return Lid{member.lid} == from && awaits_answer(member.state) &&
           member.transaction == mad->header.transaction_id;
  });
  if (mad->header.method != MadMethod::GetResp || waiting == members_.end()) {
    ++counters_.ignored;
    return;
  }
  handle_answer(*waiting, *mad, now);
}

void EthernetManager::handle_answer(Member& member, const wire::VemaMad& answer, Instant now) {
  const bool is_asked = answer.header.attribute_id == member.request.header.attribute_id &&
                        answer.vport() == member.request.vport();
  if (!is_asked) {
    ++counters_.ignored;
    return;
  }
  const MemberEvent event =
      answer.header.status == 0 ? take_answer(member, answer) : MemberEvent::Failed;
  if (event == MemberEvent::Differs) {
    ++counters_.reloads;
    member.digest = 0;
  }
  step(member, event, now);
  update_tables(now);
}

void EthernetManager::handle_trap(Lid from, const wire::VemaMad& trap, Instant now) {
  const auto notice =
      wire::unpack<wire::VemaNotice>(std::span{trap.data}.first<wire::kSizeOf<wire::VemaNotice>>());
  const auto member = std::ranges::find_if(members_, [&](const Member& one) {
    return Lid{one.lid} == from && one.config.vport == notice.trap.port_index;
  });
  if (member == members_.end() || notice.oui != wire::kVemaOui) {
    ++counters_.ignored;
    return;
  }
  ++counters_.traps;
  wire::VemaMad repress = trap;
  repress.header.method = MadMethod::TrapRepress;
  out_.push_back({.lid = from, .mad = repress});
  // What was read before the trap may be older than what it is about.
  member->is_told = member->state != MemberState::Running;
  step(*member, MemberEvent::Told, now);
}

void EthernetManager::handle_timeout(Instant now) {
  for (Member& member : members_) {
    if (member.deadline > now) {
      continue;
    }
    if (!awaits_answer(member.state)) {
      step(member, MemberEvent::Due, now);
    } else if (member.tries < limits_.tries) {
      send(member, now);
    } else {
      step(member, MemberEvent::Failed, now);
    }
  }
  std::erase_if(members_, [](const Member& one) { return one.state == MemberState::Gone; });
  update_tables(now);
}

std::optional<ManagerMad> EthernetManager::poll_transmit() {
  if (out_.empty()) {
    return std::nullopt;
  }
  ManagerMad next = std::move(out_.front());
  out_.pop_front();
  return next;
}

Instant EthernetManager::deadline() const {
  Instant first = Instant::never();
  for (const Member& member : members_) {
    first = std::min(first, member.deadline);
  }
  return first;
}

std::vector<MemberMacs> EthernetManager::macs_of(std::size_t switch_index) const {
  std::vector<MemberMacs> macs(config_.switches[switch_index].members.size());
  for (const Member& member : members_) {
    if (member.switch_index == switch_index && member.state != MemberState::Deleting) {
      macs[member.index] = {.lid = member.lid, .reported = member.reported};
    }
  }
  return macs;
}

std::vector<wire::MacTableEntry> EthernetManager::table_of(const Member& member) const {
  const SwitchConfig& config = config_.switches[member.switch_index];
  const auto macs = macs_of(member.switch_index);
  return plan_table(config, macs, plan_owners(config, macs), member.index);
}

/// After a restart nobody's table is touched before all lists are read: what other ports have
/// reported to the manager before this one would be missing.
bool EthernetManager::may_write_tables(std::size_t switch_index) const {
  return std::ranges::all_of(members_, [&](const Member& member) {
    return member.switch_index != switch_index || member.lid == 0 || member.has_lists ||
           member.state == MemberState::Deleting;
  });
}

void EthernetManager::update_tables(Instant now) {
  for (Member& member : members_) {
    if (member.state == MemberState::Running && may_write_tables(member.switch_index) &&
        member.digest != digest_of(table_of(member))) {
      step(member, MemberEvent::TableChanged, now);
    }
  }
}

bool EthernetManager::is_settled() const {
  return std::ranges::all_of(members_, [&](const Member& member) {
    return member.lid == 0 ||
           (member.state == MemberState::Running && member.digest == digest_of(table_of(member)));
  });
}

std::vector<MemberStatus> EthernetManager::status() const {
  std::vector<MemberStatus> all;
  for (const Member& member : members_) {
    if (member.state != MemberState::Deleting) {
      all.push_back({.switch_name = config_.switches[member.switch_index].name,
                     .config = member.config,
                     .state = member.state,
                     .lid = member.lid,
                     .link = member.info.port.eth_link_status,
                     .digest = member.digest,
                     .reported_macs = member.reported.size(),
                     .counters = member.summary,
                     .errors = member.errors});
    }
  }
  return all;
}

}  // namespace weft::opa_vnic
