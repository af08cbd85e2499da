#include "subnet/sa/groups.h"

#include "base/assert.h"
#include "subnet/subnet.h"

namespace weft::subnet {
namespace {

constexpr std::uint32_t kFirst = kFirstMulticastLid.value();
constexpr std::uint8_t kTransient = 0x10;  // flag of an MGID (§4.1.1)
constexpr std::uint64_t kSaSignature = 0xA01B;

}  // namespace

const SaGroup* SaGroups::find(const Gid& mgid) const {
  const auto found = groups_.find(mgid);
  return found == groups_.end() ? nullptr : &found->second;
}

std::size_t SaGroups::memberships_requested_by(Guid requesting_port) const {
  const auto found = requested_by_.find(requesting_port);
  return found == requested_by_.end() ? 0 : found->second;
}

std::optional<Lid> SaGroups::free_mlid() const {
  std::uint32_t mlid = kFirst;
  for (const auto& [taken, groups] : groups_of_mlid_) {  // sorted: finds the first gap
    if (taken.value() != mlid) {
      break;
    }
    ++mlid;
  }
  return mlid < kFirst + limits_.mlids ? std::optional{Lid{mlid}} : std::nullopt;
}

bool SaGroups::may_use(Lid mlid, PKey pkey) const {
  if (!mlid.is_multicast() || mlid.value() >= kFirst + limits_.mlids) {
    return false;
  }
  const auto found = groups_of_mlid_.find(mlid);
  return found == groups_of_mlid_.end() ||
         groups_.at(*found->second.begin()).properties.pkey.base() == pkey.base();
}

Gid SaGroups::make_mgid(std::uint64_t subnet_prefix, std::uint8_t scope) {
  Gid mgid;
  do {
    const std::uint64_t high = std::uint64_t{0xFF} << 56 |
                               std::uint64_t{static_cast<std::uint8_t>(kTransient | scope)} << 48 |
                               kSaSignature << 32 | subnet_prefix >> 32;
    mgid = Gid{high, Guid{subnet_prefix << 32 | ++last_made_}};
  } while (groups_.contains(mgid));
  return mgid;
}

void SaGroups::create(const wire::McMemberRecord& properties, bool is_permanent) {
  WEFT_ASSERT(!groups_.contains(properties.mgid) && may_use(properties.mlid, properties.pkey),
              "the caller looked before it made a group");
  groups_.emplace(properties.mgid, SaGroup{.properties = properties, .is_permanent = is_permanent});
  groups_of_mlid_[properties.mlid].insert(properties.mgid);
}

void SaGroups::join(const Gid& mgid, Guid port, const GroupMember& member) {
  SaGroup& group = groups_.at(mgid);
  const auto [place, is_new] = group.members.try_emplace(port, member);
  const auto before = place->second.join_state;
  if (is_new) {
    ++requested_by_[member.requesting_port];
  } else {
    place->second.join_state |= member.join_state;
  }
  groups_of_port_[port].insert(mgid);
  if (is_new || receives(before) != receives(place->second.join_state)) {
    changed_.insert(group.properties.mlid);
  }
}

bool SaGroups::leave(const Gid& mgid, Guid port, Flags<wire::JoinState> join_state) {
  const auto place = groups_.find(mgid);
  WEFT_ASSERT(place != groups_.end(), "the group is there");
  SaGroup& group = place->second;
  GroupMember& member = group.members.at(port);
  const auto before = member.join_state;
  member.join_state = before.without(join_state);
  if (receives(before) != receives(member.join_state) || member.join_state.empty()) {
    changed_.insert(group.properties.mlid);
  }
  if (member.join_state.empty()) {
    forget_membership(port, mgid, member.requesting_port);
    group.members.erase(port);
  }
  if (group.is_permanent || !is_full(before)) {
    return false;
  }
  for (const auto& [guid, each] : group.members) {
    if (is_full(each.join_state)) {
      return false;
    }
  }
  erase(place);
  return true;
}

std::vector<Gid> SaGroups::remove_port(Guid port) {
  std::vector<Gid> gone;
  const auto found = groups_of_port_.find(port);
  if (found == groups_of_port_.end()) {
    return gone;
  }
  const std::set<Gid> memberships = found->second;  // copied, because leave() modifies it
  for (const Gid& mgid : memberships) {
    if (leave(mgid, port, groups_.at(mgid).members.at(port).join_state)) {
      gone.push_back(mgid);
    }
  }
  return gone;
}

std::vector<SaGroups::TreeMember> SaGroups::tree_members(Lid mlid) const {
  std::vector<TreeMember> members;
  const auto found = groups_of_mlid_.find(mlid);
  if (found == groups_of_mlid_.end()) {
    return members;
  }
  std::map<Guid, bool> receiving;
  for (const Gid& mgid : found->second) {
    for (const auto& [port, member] : groups_.at(mgid).members) {
      receiving[port] |= receives(member.join_state);
    }
  }
  members.reserve(receiving.size());
  for (const auto& [port, does] : receiving) {
    members.push_back({.port = port, .receives = does});
  }
  return members;
}

std::set<Lid> SaGroups::take_changed_mlids() {
  std::set<Lid> taken;
  taken.swap(changed_);
  return taken;
}

void SaGroups::mark_all_changed() {
  for (const auto& [mlid, groups] : groups_of_mlid_) {
    changed_.insert(mlid);
  }
}

void SaGroups::erase(std::map<Gid, SaGroup>::iterator group) {
  const Gid mgid = group->first;
  const Lid mlid = group->second.properties.mlid;
  for (const auto& [port, member] : group->second.members) {
    forget_membership(port, mgid, member.requesting_port);
  }
  groups_.erase(group);
  std::set<Gid>& sharing = groups_of_mlid_.at(mlid);
  sharing.erase(mgid);
  if (sharing.empty()) {
    groups_of_mlid_.erase(mlid);
  }
  changed_.insert(mlid);
}

void SaGroups::forget_membership(Guid port, const Gid& mgid, Guid requesting_port) {
  const auto asked = requested_by_.find(requesting_port);
  if (--asked->second == 0) {
    requested_by_.erase(asked);
  }
  const auto found = groups_of_port_.find(port);
  found->second.erase(mgid);
  if (found->second.empty()) {
    groups_of_port_.erase(found);
  }
}

}  // namespace weft::subnet
