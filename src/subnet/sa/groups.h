#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/flags.h"
#include "base/identifiers.h"
#include "wire/mad/mc_member_record.h"

namespace weft::subnet {

/// A port in a multicast group.
struct GroupMember {
  Gid port_gid{};
  Flags<wire::JoinState> join_state{};
  bool is_proxy{};  ///< another port asked for it
  Guid asker{};     ///< the port that did, whose limits count; none of those that SA joined itself
};

struct SaGroup {
  /// What all members share; PortGID, JoinState and ProxyJoin say nothing here.
  wire::McMemberRecord properties{};
  bool is_permanent{};                    ///< stays without members
  std::map<Guid, GroupMember> members{};  ///< by port GUID
};

/// Full members keep a group alive (IBTA vol 1 §10.5.2).
[[nodiscard]] constexpr bool is_full(Flags<wire::JoinState> state) {
  return state.has(wire::JoinState::FullMember) || state.has(wire::JoinState::SendOnlyFullMember);
}
/// Wants what is sent to the group.
[[nodiscard]] constexpr bool receives(Flags<wire::JoinState> state) {
  return state.has(wire::JoinState::FullMember) || state.has(wire::JoinState::NonMember);
}

/// The multicast groups of a subnet, their members and MLIDs. Which groups a port may be in is
/// their user's business; how many is theirs. Groups of one MLID share a tree.
class SaGroups {
 public:
  struct Limits {
    std::size_t mlids{16383};  ///< 0xC000 .. 0xFFFE; switches may have fewer
    std::size_t groups{16383};
    std::size_t memberships_of_asker{1024};  ///< policy, not from the specification
  };
  explicit SaGroups(const Limits& limits) : limits_(limits) {}

  void set_mlid_limit(std::size_t mlids) { limits_.mlids = mlids; }

  [[nodiscard]] const std::map<Gid, SaGroup>& groups() const { return groups_; }
  [[nodiscard]] const SaGroup* find(const Gid& mgid) const;
  [[nodiscard]] std::size_t memberships_asked_by(Guid asker) const;

  [[nodiscard]] bool has_room() const { return groups_.size() < limits_.groups; }
  [[nodiscard]] bool has_room_for(Guid asker) const {
    return memberships_asked_by(asker) < limits_.memberships_of_asker;
  }

  /// The lowest MLID that no group has; none when all are taken.
  [[nodiscard]] std::optional<Lid> free_mlid() const;
  /// An MLID that the switches can forward, and that is free or of a group of the same partition.
  [[nodiscard]] bool may_use(Lid mlid, PKey pkey) const;
  /// A transient MGID with SA's signature and link-local scope that no group has (§15.2.5.17).
  [[nodiscard]] Gid make_mgid(std::uint64_t subnet_prefix, std::uint8_t scope);

  /// Its MGID must be new and its MLID usable.
  void create(const wire::McMemberRecord& properties, bool is_permanent);
  /// The group must exist; join states add up.
  void join(const Gid& mgid, Guid port, const GroupMember& member);
  /// Takes bits of the join state away, and the port when none are left. True when the group went
  /// with it, since no full member was left; others that were in it are out then.
  bool leave(const Gid& mgid, Guid port, Flags<wire::JoinState> join_state);
  /// Takes the port out of every group; the MGIDs of the groups that went.
  [[nodiscard]] std::vector<Gid> remove_port(Guid port);

  /// A port of an MLID's tree, over all groups that have the MLID.
  struct TreeMember {
    Guid port{};
    bool receives{};
  };
  [[nodiscard]] std::vector<TreeMember> tree_members(Lid mlid) const;
  /// MLIDs whose trees have to be made anew, since asked last.
  [[nodiscard]] std::set<Lid> take_changed_mlids();
  [[nodiscard]] bool has_changes() const { return !changed_.empty(); }
  void mark_changed(Lid mlid) { changed_.insert(mlid); }
  void mark_all_changed();

 private:
  void erase(std::map<Gid, SaGroup>::iterator group);
  void forget_membership(Guid port, const Gid& mgid, Guid asker);

  Limits limits_;
  std::map<Gid, SaGroup> groups_;
  std::map<Lid, std::set<Gid>> groups_of_mlid_;
  std::map<Guid, std::set<Gid>> groups_of_port_;
  std::map<Guid, std::size_t> asked_by_;
  std::set<Lid> changed_;
  std::uint32_t last_made_{};
};

}  // namespace weft::subnet
