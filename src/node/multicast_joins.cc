#include "node/multicast_joins.h"

#include <span>
#include <utility>

#include "base/bytes.h"
#include "wire/mad/component_mask.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/sa_mad.h"

namespace weft::node {
namespace {

using Record = wire::McMemberRecord;

constexpr std::uint64_t kJoinComponents = wire::kComponent<Record, "MGID"> |
                                          wire::kComponent<Record, "PortGID"> |
                                          wire::kComponent<Record, "JoinState">;
constexpr std::uint64_t kOfANewGroup =
    kJoinComponents | wire::kComponent<Record, "Q_Key"> | wire::kComponent<Record, "MLID"> |
    wire::kComponent<Record, "TClass"> | wire::kComponent<Record, "P_Key"> |
    wire::kComponent<Record, "SL"> | wire::kComponent<Record, "FlowLabel">;

}  // namespace

void MulticastJoins::join(fabric::PortIndex port, const Gid& mgid, Lid mlid, Instant now) {
  Group& group = groups_[{port, mgid}];
  if (++group.qps == 1) {
    group.mlid = mlid;
    group.registered = tables_.port(port).reregistrations;
    ask({port, mgid}, mlid, wire::MadMethod::Set, Form::Join, now);
  }
}

void MulticastJoins::leave(fabric::PortIndex port, const Gid& mgid, Instant now) {
  const auto found = groups_.find({port, mgid});
  if (found == groups_.end() || --found->second.qps != 0) {
    return;
  }
  if (!is_held_by_other_owner_ || !is_held_by_other_owner_(port, mgid)) {
    ask(found->first, found->second.mlid, wire::MadMethod::Delete, Form::Join, now);
  }
  groups_.erase(found);
}

bool MulticastJoins::refresh(Instant now) {
  bool has_asked = false;
  for (const Key& key : std::exchange(missing_, {})) {
    if (const auto group = groups_.find(key); group != groups_.end()) {
      ask(key, group->second.mlid, wire::MadMethod::Set, Form::Make, now);
      has_asked = true;
    }
  }
  for (auto& [key, group] : groups_) {
    const std::uint8_t asked = tables_.port(key.first).reregistrations;
    if (group.registered != asked) {
      group.registered = asked;
      ask(key, group.mlid, wire::MadMethod::Set, Form::Join, now);
      has_asked = true;
    }
  }
  return has_asked;
}

/// A join without the group's properties suffices for an existing group; a missing group is created
/// afterwards.
void MulticastJoins::ask(const Key& key, Lid mlid, wire::MadMethod method, Form form, Instant now) {
  const auto& [port, mgid] = key;
  const fabric::PortRecord& record = tables_.port(port);
  if (record.sm_lid == Lid{} || record.state != fabric::PortState::Active) {
    return;  // no SM yet: a new one requests reregistration
  }
  Record wanted{.mgid = mgid, .port_gid = tables_.gids(port).front(), .mlid = mlid};
  wanted.join_state = wire::JoinState::FullMember;
  wanted.pkey = tables_.pkeys(port).empty() ? kDefaultPKey : tables_.pkeys(port).front();
  wire::SaHeader header{.component_mask = form == Form::Make ? kOfANewGroup : kJoinComponents};
  header.header.method = method;
  header.header.attribute_id = static_cast<std::uint16_t>(wire::SaAttribute::McMemberRecord);
  mad::MadMessage request;
  constexpr std::size_t kHeaderBytes = wire::kSizeOf<wire::SaHeader>;
  wire::pack(header, std::span{request.mad}.first<kHeaderBytes>());
  copy_bytes(std::span{request.mad}.subspan(kHeaderBytes), wire::pack(wanted));
  const bool may_be_missing = method == wire::MadMethod::Set && form == Form::Join;
  const auto take = [this, key, may_be_missing](const mad::Completion& completion) {
    if (may_be_missing && completion.answer != nullptr && completion.answer->status() != 0) {
      missing_.push_back(key);
    }
  };
  mad::ManagementInterface& gsi = plane_.port(port).gsi();
  static_cast<void>(gsi.send(agent_at(port), {.lid = record.sm_lid, .sl = record.sm_sl},
                             std::move(request), {}, take, now));
  plane_.wake(port);
}

mad::AgentId MulticastJoins::agent_at(fabric::PortIndex port) {
  const auto found = agents_.find(port);
  if (found != agents_.end()) {
    return found->second;
  }
  const auto agent = plane_.port(port).gsi().register_agent(
      {.mgmt_class = wire::ManagementClass::SubnAdm, .class_version = wire::kSaClassVersion},
      nullptr);
  return agents_[port] = agent.value_or(mad::AgentId{});
}

}  // namespace weft::node
