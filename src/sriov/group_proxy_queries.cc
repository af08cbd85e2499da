// What can be asked of a GroupProxy, and its queues.

#include <algorithm>

#include "base/assert.h"
#include "sriov/group_proxy.h"

namespace weft::sriov {

const GroupProxy::Group* GroupProxy::find(const Gid& mgid) const {
  const auto found = by_mgid_.find(mgid);
  return found == by_mgid_.end() ? nullptr : &groups_.at(found->second);
}

GroupProxy::Group* GroupProxy::find(const Gid& mgid) {
  const auto found = by_mgid_.find(mgid);
  return found == by_mgid_.end() ? nullptr : &groups_.at(found->second);
}

GroupProxy::Key GroupProxy::add_group(const Gid& mgid) {
  const Key key = ++last_key_;
  groups_[key].mgid = mgid;
  if (!mgid.is_zero()) {
    by_mgid_[mgid] = key;
  }
  return key;
}

bool GroupProxy::is_pending(FunctionId function, std::uint64_t transaction_id) const {
  const auto is_same = [&](const Request& request) {
    return request.function == function && request.mad.sa.header.transaction_id == transaction_id;
  };
  return std::ranges::any_of(groups_, [&](const auto& entry) {
    const Group& group = entry.second;
    return (group.flight.request && is_same(*group.flight.request)) ||
           std::ranges::any_of(group.queue, is_same);
  });
}

std::size_t GroupProxy::pending_of(FunctionId function) const {
  const auto is_own = [&](const Request& request) { return request.function == function; };
  std::size_t count = 0;
  for (const auto& [key, group] : groups_) {
    count += static_cast<std::size_t>(std::ranges::count_if(group.queue, is_own));
    count += group.flight.request && is_own(*group.flight.request) ? 1U : 0U;
  }
  return count;
}

std::size_t GroupProxy::groups_of(FunctionId function) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      groups_, [&](const auto& entry) { return entry.second.members.contains(function); }));
}

std::size_t GroupProxy::limit_of(FunctionId function) const {
  const auto own = limit_of_.find(function);
  return own == limit_of_.end() ? limits_.groups_of_function : own->second;
}

void GroupProxy::set_limit(FunctionId function, std::optional<std::size_t> groups) {
  if (groups) {
    limit_of_[function] = *groups;
  } else {
    limit_of_.erase(function);
  }
}

std::optional<wire::SaMad> GroupProxy::poll_transmit() {
  if (to_send_.empty()) {
    return std::nullopt;
  }
  const wire::SaMad mad = to_send_.front();
  to_send_.pop_front();
  return mad;
}

std::optional<GroupProxy::Answer> GroupProxy::poll_answer() {
  if (answers_.empty()) {
    return std::nullopt;
  }
  const Answer answer = answers_.front();
  answers_.pop_front();
  return answer;
}

Instant GroupProxy::poll_deadline() const {
  Instant first = Instant::never();
  for (const auto& [key, group] : groups_) {
    if (group.state != GroupState::Idle) {
      first = std::min(first, group.flight.due);
    } else if (group.needs_repair()) {
      first = std::min(first, group.repair_at);
    }
  }
  return first;
}

std::vector<wire::McMemberRecord> GroupProxy::memberships_of(FunctionId function) const {
  std::vector<wire::McMemberRecord> memberships;
  for (const auto& [key, group] : groups_) {
    const auto member = group.members.find(function);
    if (member == group.members.end() || !group.record) {
      continue;
    }
    wire::McMemberRecord record = *group.record;
    record.join_state = member->second;
    memberships.push_back(record);
  }
  return memberships;
}

JoinStates GroupProxy::wanted(const Gid& mgid) const {
  const Group* const group = find(mgid);
  return group == nullptr ? JoinStates{} : group->wanted();
}

JoinStates GroupProxy::confirmed(const Gid& mgid) const {
  const Group* const group = find(mgid);
  return group == nullptr ? JoinStates{} : group->confirmed;
}

GroupState GroupProxy::state(const Gid& mgid) const {
  const Group* const group = find(mgid);
  return group == nullptr ? GroupState::Idle : group->state;
}

void GroupProxy::check_invariants() const {
  std::size_t flights = 0;
  for (const auto& [key, group] : groups_) {
    WEFT_ASSERT(!group.is_empty(), "an empty group is forgotten");
    WEFT_ASSERT(group.possible.has_all(group.confirmed), "what is confirmed is possible");
    WEFT_ASSERT(group.state != GroupState::Idle || group.queue.empty(),
                "requests wait only for an answer of SA");
    if (group.state != GroupState::Idle) {
      ++flights;
      const auto flight = flights_.find(group.flight.sent.sa.header.transaction_id);
      WEFT_ASSERT(flight != flights_.end() && flight->second == key, "an answer finds its group");
    }
    for (const auto& [function, states] : group.members) {
      WEFT_ASSERT(!states.empty(), "a member has a join state");
    }
  }
  WEFT_ASSERT(flights == flights_.size(), "each flight has its group");
  for (const auto& [mgid, key] : by_mgid_) {
    WEFT_ASSERT(groups_.contains(key) && groups_.at(key).mgid == mgid, "names lead to groups");
  }
}

}  // namespace weft::sriov
