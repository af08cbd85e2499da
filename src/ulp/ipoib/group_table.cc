#include "ulp/ipoib/group_table.h"

#include <algorithm>
#include <utility>

#include "ulp/ipoib/planted_bug.h"
#include "wire/ipoib/mgid.h"
#include "wire/mad/component_mask.h"

namespace weft::ipoib {

using wire::JoinState;
using wire::kComponent;
using wire::McMemberRecord;

namespace {

/// What a group that is made has to have (IBTA vol 1 §15.2.5.17), all taken from the broadcast
/// group (RFC 4391 §10).
constexpr std::uint64_t kCreation =
    kComponent<McMemberRecord, "P_Key"> | kComponent<McMemberRecord, "Q_Key"> |
    kComponent<McMemberRecord, "TClass"> | kComponent<McMemberRecord, "SL"> |
    kComponent<McMemberRecord, "FlowLabel"> | kComponent<McMemberRecord, "HopLimit"> |
    kComponent<McMemberRecord, "MtuSelector"> | kComponent<McMemberRecord, "Mtu"> |
    kComponent<McMemberRecord, "RateSelector"> | kComponent<McMemberRecord, "Rate">;

consteval bool rows_are_unique() {
  for (std::size_t i = 0; i < kGroupRows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (kGroupRows[i].state == kGroupRows[j].state &&
          kGroupRows[i].event == kGroupRows[j].event) {
        return false;
      }
    }
  }
  return true;
}
static_assert(rows_are_unique());

/// The scope of the broadcast group's MGID is that of all groups of the link (RFC 4391 §4).
[[nodiscard]] std::uint8_t scope_of(const McMemberRecord& broadcast) {
  return std::to_integer<std::uint8_t>(broadcast.mgid.octets()[1] & std::byte{0x0F});
}

}  // namespace

std::optional<GroupState> next_state(GroupState state, GroupEvent event) {
  const auto row = std::ranges::find_if(
      kGroupRows, [&](const GroupRow& one) { return one.state == state && one.event == event; });
  return row == kGroupRows.end() ? std::nullopt : std::optional{row->next};
}

Gid GroupTable::mgid_of(const IpAddress& group) const {
  return wire::ipoib_group(group, broadcast_->pkey, scope_of(*broadcast_));
}

GroupTable::Group* GroupTable::find_or_make(const Gid& mgid) {
  const auto found = groups_.find(mgid);
  if (found != groups_.end()) {
    return &found->second;
  }
  return groups_.size() < limits_.groups ? &groups_[mgid] : nullptr;
}

Flags<JoinState> GroupTable::wanted(const Group& group) const {
  return group.is_listening ? JoinState::FullMember : send_only_;
}

void GroupTable::link_up(const McMemberRecord& broadcast, Instant now) {
  broadcast_ = broadcast;
  is_up_ = true;
  for (auto& [mgid, group] : groups_) {
    step(mgid, group, GroupEvent::LinkUp, now);
  }
  for (const auto& [group, is_member] : std::exchange(early_, {})) {
    set_listening(group, is_member, now);
  }
}

void GroupTable::link_down() {
  is_up_ = false;
  for (auto& [mgid, group] : groups_) {
    step(mgid, group, GroupEvent::LinkDown, Instant{});
  }
}

void GroupTable::listen_as(const GroupTable& other, Instant now) {
  for (const IpAddress& group : std::set{listened_}) {
    if (!other.listened_.contains(group)) {
      static_cast<void>(set_listening(group, false, now));
    }
  }
  for (const IpAddress& group : other.listened_) {
    static_cast<void>(set_listening(group, true, now));
  }
}

bool GroupTable::set_listening(const IpAddress& address, bool is_member, Instant now) {
  if (!is_member) {
    listened_.erase(address);
  } else if (listened_.size() < limits_.groups) {
    listened_.insert(address);
  }
  if (!broadcast_) {
    if (early_.size() >= limits_.groups && !early_.contains(address)) {
      return false;
    }
    early_[address] = is_member;
    return true;
  }
  const Gid mgid = mgid_of(address);
  if (mgid == broadcast_->mgid) {
    return true;
  }
  if (!is_member) {
    const auto found = groups_.find(mgid);
    if (found != groups_.end() && found->second.is_listening &&
        !planted(PlantedBug::LeaveForgotten)) {
      leave(found);
    }
    return true;
  }
  Group* const group = find_or_make(mgid);
  if (group == nullptr) {
    return false;
  }
  if (!std::exchange(group->is_listening, true)) {
    begin(mgid, *group, now);
  }
  return true;
}

void GroupTable::send(const IpAddress& address, Packet packet, Instant now) {
  if (is_up_ && mgid_of(address) == broadcast_->mgid) {
    actions_.push_back({.kind = GroupAction::Kind::Send,
                        .mgid = broadcast_->mgid,
                        .join = {},
                        .left = {},
                        .group = *broadcast_,
                        .packet = std::move(packet)});
    return;
  }
  Group* const group = broadcast_ ? find_or_make(mgid_of(address)) : nullptr;
  if (group == nullptr || group->packets.size() >= limits_.packets_of_group) {
    ++counters_.dropped;
    return;
  }
  const Gid mgid = mgid_of(address);
  group->last_sent = now;
  group->packets.push_back(std::move(packet));
  if (group->state == GroupState::Joined) {
    return flush(mgid, *group);
  }
  if (group->state == GroupState::Waiting) {
    begin(mgid, *group, now);
  }
}

/// What is wanted of the group is new, or other than before.
void GroupTable::begin(const Gid& mgid, Group& group, Instant now) {
  if (is_up_) {
    const bool is_waiting = group.state == GroupState::Waiting;
    step(mgid, group, is_waiting ? GroupEvent::LinkUp : GroupEvent::Changed, now);
  }
}

void GroupTable::flush(const Gid& mgid, Group& group) {
  for (Packet& packet : std::exchange(group.packets, {})) {
    actions_.push_back({.kind = GroupAction::Kind::Send,
                        .mgid = mgid,
                        .group = group.record,
                        .packet = std::move(packet)});
  }
}

void GroupTable::step(const Gid& mgid, Group& group, GroupEvent event, Instant now) {
  const auto next = next_state(group.state, event);
  if (!next) {
    return;
  }
  group.state = *next;
  group.due = Instant::never();
  switch (group.state) {
    case GroupState::Joining:
      return send_join(mgid, group);
    case GroupState::Joined:
      group.backoff = Duration{};
      return flush(mgid, group);
    case GroupState::Retry:
      group.backoff = std::min(std::max(group.backoff * 2, limits_.retry), limits_.max_retry);
      group.due = now + group.backoff;
      counters_.dropped += group.packets.size();
      group.packets.clear();
      return;
    case GroupState::Waiting:
      return;
  }
}

void GroupTable::send_join(const Gid& mgid, Group& group) {
  McMemberRecord record = *broadcast_;
  record.mgid = mgid;
  record.mlid = Lid{};
  record.port_gid = Gid{};
  record.mtu_selector = wire::Selector::Exactly;
  record.rate_selector = wire::Selector::Exactly;
  record.join_state = group.asked = wanted(group);
  ++counters_.joins;
  actions_.push_back({
      .kind = GroupAction::Kind::Join,
      .mgid = mgid,
      .join = {.record = record, .mask = kCreation}
  });
}

void GroupTable::leave(std::map<Gid, Group>::iterator group) {
  if (group->second.state == GroupState::Joining || group->second.state == GroupState::Joined) {
    ++counters_.leaves;
    actions_.push_back(
        {.kind = GroupAction::Kind::Leave, .mgid = group->first, .left = group->second.asked});
  }
  counters_.dropped += group->second.packets.size();
  groups_.erase(group);
}

void GroupTable::joined(const McMemberRecord& record, Instant now) {
  const auto found = groups_.find(record.mgid);
  if (found == groups_.end()) {
    return;
  }
  // An answer to an earlier join, of another kind, is not what is waited for.
  if (!record.join_state.has_all(found->second.asked)) {
    return;
  }
  found->second.record = record;
  step(record.mgid, found->second, GroupEvent::Answered, now);
}

void GroupTable::refused(const Gid& mgid, Instant now) {
  const auto found = groups_.find(mgid);
  if (found != groups_.end() && !planted(PlantedBug::RefusalIgnored)) {
    ++counters_.refused;
    step(mgid, found->second, GroupEvent::Refused, now);
  }
}

void GroupTable::handle_timeout(Instant now) {
  for (auto group = groups_.begin(); group != groups_.end();) {
    const auto current = group++;
    if (current->second.due <= now) {
      step(current->first, current->second, GroupEvent::Due, now);
    }
    if (!current->second.is_listening && current->second.last_sent + limits_.send_only <= now) {
      leave(current);
    }
  }
}

Instant GroupTable::deadline() const {
  Instant first = Instant::never();
  for (const auto& [mgid, group] : groups_) {
    first = std::min(first, group.due);
    if (!group.is_listening) {
      first = std::min(first, group.last_sent + limits_.send_only);
    }
  }
  return first;
}

std::optional<GroupAction> GroupTable::poll_action() {
  if (actions_.empty()) {
    return std::nullopt;
  }
  GroupAction action = std::move(actions_.front());
  actions_.pop_front();
  return action;
}

bool GroupTable::is_listening(const Gid& mgid) const {
  const auto found = groups_.find(mgid);
  return found != groups_.end() && found->second.is_listening;
}

std::optional<GroupState> GroupTable::state_of(const Gid& mgid) const {
  const auto found = groups_.find(mgid);
  return found == groups_.end() ? std::nullopt : std::optional{found->second.state};
}

std::map<Gid, Flags<JoinState>> GroupTable::memberships() const {
  std::map<Gid, Flags<JoinState>> all;
  for (const auto& [mgid, group] : groups_) {
    if (group.state == GroupState::Joined) {
      all.emplace(mgid, group.asked);
    }
  }
  return all;
}

}  // namespace weft::ipoib
