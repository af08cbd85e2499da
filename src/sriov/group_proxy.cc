#include "sriov/group_proxy.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "sriov/group_record.h"
#include "sriov/planted_bug.h"
#include "sriov/transaction_ids.h"

namespace weft::sriov {

std::string_view name_of(GroupState state) {
  switch (state) {
    case GroupState::Idle:
      return "IDLE";
    case GroupState::JoinSent:
      return "JOIN_SENT";
    case GroupState::LeaveSent:
      return "LEAVE_SENT";
  }
  return {};
}

JoinStates GroupProxy::Group::wanted() const {
  JoinStates all;
  for (const auto& [function, states] : members) {
    all |= states;
  }
  return all;
}

bool GroupProxy::Group::needs_repair() const {
  const bool has_too_much = !possible.without(wanted()).empty();
  if (planted(PlantedBug::LeaveForgotten) && has_too_much) {
    return false;
  }
  return has_too_much || !wanted().without(confirmed).empty();
}

bool GroupProxy::Group::is_empty() const {
  return state == GroupState::Idle && queue.empty() && members.empty() && !needs_repair();
}

OrReason<Reason> GroupProxy::handle_request(const GroupRequester& from, const wire::SaMad& request,
                                            Instant now) {
  const Request made{.function = from.function, .mad = request, .record = record_of(request)};
  if (is_pending(from.function, request.sa.header.transaction_id) ||
      pending_of(from.function) >= limits_.pending_of_function) {
    return std::unexpected(Reason::MulticastRefused);
  }
  if (const auto status = check(from, request, made.record)) {
    answer(made, static_cast<std::uint16_t>(*status), made.record, made.record.join_state);
    return *status == wire::SaStatus::NoResources ? Reason::TooManyGroups : Reason::Aggregated;
  }
  const auto known = by_mgid_.find(made.record.mgid);
  const Key key = known != by_mgid_.end() ? known->second : add_group(made.record.mgid);
  groups_.at(key).queue.push_back(made);
  advance(key, now);
  return Reason::Aggregated;
}

std::optional<wire::SaStatus> GroupProxy::check(const GroupRequester& from,
                                                const wire::SaMad& request,
                                                const wire::McMemberRecord& record) const {
  const bool is_join = request.sa.header.method == wire::MadMethod::Set;
  if (record.port_gid != from.gid) {
    return wire::SaStatus::RequestInvalidGid;
  }
  if (record.join_state.empty() || (is_join && !from.has_partition)) {
    return wire::SaStatus::RequestInvalid;
  }
  const Group* const group = find(record.mgid);
  if (!is_join) {
    return group == nullptr ? std::optional{wire::SaStatus::RequestInvalid} : std::nullopt;
  }
  const bool is_member = group != nullptr && group->members.contains(from.function);
  if ((group == nullptr && groups_.size() >= limits_.groups) ||
      (!is_member && groups_of(from.function) >= limit_of(from.function))) {
    return wire::SaStatus::NoResources;
  }
  return std::nullopt;
}

void GroupProxy::advance(Key key, Instant now) {
  for (;;) {
    Group& group = groups_.at(key);
    if (group.state != GroupState::Idle || group.queue.empty()) {
      break;
    }
    const Request request = std::move(group.queue.front());
    group.queue.pop_front();
    if (request.mad.sa.header.method == wire::MadMethod::Set) {
      process_join(key, request, now);
    } else {
      process_leave(key, request, now);
    }
  }
  repair(key, now);
  if (const Group& group = groups_.at(key); group.is_empty()) {
    by_mgid_.erase(group.mgid);
    groups_.erase(key);
  }
}

void GroupProxy::process_join(Key key, const Request& request, Instant now) {
  Group& group = groups_.at(key);
  const JoinStates states = request.record.join_state;
  const bool is_known = group.record.has_value();
  if (is_known && (group.confirmed.has_all(states) || planted(PlantedBug::AnswerWithoutJoin))) {
    if (!fits(*group.record, request.record, request.mad.sa.component_mask)) {
      answer(request, static_cast<std::uint16_t>(wire::SaStatus::RequestInvalid), request.record,
             states);
      return;
    }
    group.members[request.function] |= states;
    if (planted(PlantedBug::AnswerWithoutJoin)) {
      group.confirmed |= states;
      group.possible |= states;
    }
    answer(request, 0, *group.record, group.members[request.function]);
    return;
  }
  const JoinStates all =
      planted(PlantedBug::JoinStateNotUnited) ? states : group.wanted() | group.confirmed | states;
  send(key, true, all, request, now);
}

void GroupProxy::process_leave(Key key, const Request& request, Instant now) {
  Group& group = groups_.at(key);
  const JoinStates leaving = request.record.join_state;
  const auto member = group.members.find(request.function);
  if (member == group.members.end() || !member->second.has_all(leaving)) {
    answer(request, static_cast<std::uint16_t>(wire::SaStatus::RequestInvalid), request.record,
           leaving);
    return;
  }
  const JoinStates left = member->second.without(leaving);
  if (left.empty()) {
    group.members.erase(member);
  } else {
    member->second = left;
  }
  answer(request, 0, group.record.value_or(request.record), left);
  if (planted(PlantedBug::LeaveOfOneLeavesAll)) {
    send(key, false, leaving, std::nullopt, now);
  }
}

void GroupProxy::repair(Key key, Instant now) {
  Group& group = groups_.at(key);
  if (group.state != GroupState::Idle) {
    return;
  }
  if (group.mgid.is_zero()) {
    group.possible = {};  // what SA may have made has no name here, so it cannot be left
    return;
  }
  if (!group.needs_repair() || now < group.repair_at) {
    return;
  }
  const JoinStates surplus = group.possible.without(group.wanted());
  if (!surplus.empty()) {
    send(key, false, surplus, std::nullopt, now);
  } else {
    send(key, true, group.wanted(), std::nullopt, now);
  }
}

void GroupProxy::send(Key key, bool is_join, JoinStates states, std::optional<Request> request,
                      Instant now) {
  Group& group = groups_.at(key);
  WEFT_ASSERT(group.state == GroupState::Idle, "requests about one group are sent one by one");
  const std::uint64_t transaction_id = with_tag(kMulticastTag, ++last_transaction_);
  wire::SaMad mad;
  if (request) {
    mad = request->mad;
    set_record(mad, joined(request->record, port_gid_, states));
    mad.sa.component_mask |= kMembershipMask;
  } else {
    mad = make_request(group.record.value_or(wire::McMemberRecord{.mgid = group.mgid}), is_join,
                       port_gid_, states);
  }
  mad.sa.header.transaction_id = transaction_id;
  group.state = is_join ? GroupState::JoinSent : GroupState::LeaveSent;
  group.flight = {.states = states,
                  .request = std::move(request),
                  .retries_left = limits_.retries,
                  .sent = mad,
                  .due = now + limits_.timeout};
  if (is_join) {
    group.possible |= states;
  } else {
    group.confirmed = group.confirmed.without(states);  // SA may do it, and its answer be lost
  }
  flights_[transaction_id] = key;
  to_send_.push_back(mad);
}

void GroupProxy::land(Group& group) {
  flights_.erase(group.flight.sent.sa.header.transaction_id);
  group.flight = {};
  group.state = GroupState::Idle;
}

bool GroupProxy::handle_answer(const wire::SaMad& received, Instant now) {
  const auto flight = flights_.find(received.sa.header.transaction_id);
  if (flight == flights_.end()) {
    return tag_of(received.sa.header.transaction_id) == kMulticastTag;  // late
  }
  const Key key = flight->second;
  Group& group = groups_.at(key);
  const bool is_join = group.state == GroupState::JoinSent;
  const auto& header = received.sa.header;
  const auto wanted_method = is_join ? wire::MadMethod::GetResp : wire::MadMethod::DeleteResp;
  if (header.method != wanted_method || !is_member_record(header) ||
      (header.status & wire::kMadStatusBusy) != 0) {
    return true;  // no answer: the request is sent again
  }
  const bool is_refused_repair = is_join && !group.flight.request && header.status != 0;
  if (is_join) {
    end_join(key, received);
    if (!groups_.contains(key)) {
      return true;  // SA gave it the name of another one, which has taken it over
    }
  } else {
    // With an error SA says that there is no such membership.
    group.confirmed = group.confirmed.without(group.flight.states);
    group.possible = group.possible.without(group.flight.states);
    land(group);
  }
  Group& after = groups_.at(key);
  if (is_refused_repair) {
    postpone_repair(after, now);
  } else {  // SA answers
    after.backoff = {};
    after.repair_at = {};
  }
  advance(key, now);
  return true;
}

void GroupProxy::end_join(Key key, const wire::SaMad& received) {
  Group& group = groups_.at(key);
  const wire::McMemberRecord record = record_of(received);
  const Flight flight = group.flight;
  land(group);
  const std::uint16_t status = received.sa.header.status;
  const bool names_it =
      group.mgid.is_zero() ? record.mgid.is_multicast() : record.mgid == group.mgid;
  if (status != 0 || !names_it) {
    group.possible = group.confirmed;
    if (flight.request) {
      const auto told =
          status != 0 ? status : static_cast<std::uint16_t>(wire::SaStatus::RequestInvalid);
      answer(*flight.request, told, flight.request->record, flight.request->record.join_state);
    }
    return;
  }
  group.record = record;
  group.confirmed |= flight.states;
  group.possible |= flight.states;
  if (flight.request) {
    JoinStates& member = group.members[flight.request->function];
    member |= flight.request->record.join_state;
    answer(*flight.request, 0, record, member);
  }
  if (group.mgid.is_zero()) {
    name_group(key, record);
  }
}

void GroupProxy::name_group(Key key, const wire::McMemberRecord& record) {
  Group& group = groups_.at(key);
  group.mgid = record.mgid;
  const auto [known, is_new] = by_mgid_.try_emplace(record.mgid, key);
  if (is_new) {
    return;
  }
  Group& other = groups_.at(known->second);
  for (const auto& [function, states] : group.members) {
    other.members[function] |= states;
  }
  other.confirmed |= group.confirmed;
  other.possible |= group.possible;
  groups_.erase(key);
}

void GroupProxy::give_up(Group& group, Instant now) {
  if (group.state == GroupState::JoinSent && planted(PlantedBug::LostJoinNotWithdrawn)) {
    group.possible = group.confirmed;
  }
  land(group);  // the function that asked has its own timeout, and asks again
  postpone_repair(group, now);
}

void GroupProxy::postpone_repair(Group& group, Instant now) {
  group.backoff = group.backoff == Duration{} ? limits_.backoff
                                              : std::min(group.backoff * 2, limits_.backoff_max);
  group.repair_at = now + group.backoff;
}

void GroupProxy::remove(FunctionId function, Instant now) {
  limit_of_.erase(function);
  if (planted(PlantedBug::RemovalKeepsMembership)) {
    return;
  }
  std::erase_if(answers_, [&](const Answer& answer) { return answer.function == function; });
  std::vector<Key> changed;
  for (auto& [key, group] : groups_) {
    group.members.erase(function);
    std::erase_if(group.queue, [&](const Request& one) { return one.function == function; });
    if (group.flight.request && group.flight.request->function == function) {
      group.flight.request.reset();  // SA's answer is still needed, to know what it has
    }
    changed.push_back(key);
  }
  for (const Key key : changed) {
    advance(key, now);
  }
}

void GroupProxy::rejoin_all(Instant now) {
  if (planted(PlantedBug::ReregisterIgnored)) {
    return;
  }
  std::vector<Key> changed;
  for (auto& [key, group] : groups_) {
    if (group.flight.request) {
      group.queue.push_front(*group.flight.request);
    }
    if (group.state != GroupState::Idle) {
      land(group);  // an answer that still comes says nothing about the new SA
    }
    group.confirmed = {};
    group.backoff = {};
    group.repair_at = {};
    changed.push_back(key);
  }
  for (const Key key : changed) {
    advance(key, now);
  }
}

void GroupProxy::handle_timeout(Instant now) {
  std::vector<Key> changed;
  for (auto& [key, group] : groups_) {
    if (group.state == GroupState::Idle) {
      if (group.needs_repair() && group.repair_at <= now) {
        changed.push_back(key);
      }
      continue;
    }
    if (now < group.flight.due) {
      continue;
    }
    if (group.flight.retries_left == 0) {
      give_up(group, now);
      changed.push_back(key);
      continue;
    }
    --group.flight.retries_left;
    group.flight.due = now + limits_.timeout;
    to_send_.push_back(group.flight.sent);
  }
  for (const Key key : changed) {
    advance(key, now);
  }
}

void GroupProxy::adopt(FunctionId function, const std::vector<wire::McMemberRecord>& memberships,
                       Instant now) {
  for (const wire::McMemberRecord& membership : memberships) {
    const bool is_known = find(membership.mgid) != nullptr;
    if ((!is_known && groups_.size() >= limits_.groups) ||
        groups_of(function) >= limit_of(function)) {
      continue;
    }
    const Key key = is_known ? by_mgid_.at(membership.mgid) : add_group(membership.mgid);
    Group& group = groups_.at(key);
    group.members[function] |= membership.join_state;
    group.record = group.record.value_or(membership);
    advance(key, now);
  }
}

void GroupProxy::answer(const Request& request, std::uint16_t status, wire::McMemberRecord record,
                        JoinStates states) {
  Answer made{.function = request.function, .mad = request.mad};
  wire::MadHeader& header = made.mad.sa.header;
  header.method = header.method == wire::MadMethod::Set ? wire::MadMethod::GetResp
                                                        : wire::MadMethod::DeleteResp;
  header.status = status;
  record.proxy_join = request.record.proxy_join;
  set_record(made.mad, joined(record, request.record.port_gid, states));
  answers_.push_back(made);
}

}  // namespace weft::sriov
