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

/// A port's membership in a multicast group.
struct GroupMember {
  Gid port_gid{};
  Flags<wire::JoinState> join_state{};
  bool is_proxy{};  ///< the join was requested by another port
  /// GUID of the requesting port, to whose limit it counts; zero if SA joined the port itself
  Guid requesting_port{};
};

/// A multicast group of the SA.
struct SaGroup {
  /// Properties shared by all members; PortGID, JoinState and ProxyJoin are unused.
  wire::McMemberRecord properties{};
  bool is_permanent{};                    ///< persists without members
  std::map<Guid, GroupMember> members{};  ///< by port GUID
};

/// True for states that keep a group alive (IBTA vol 1 §10.5.2).
[[nodiscard]] constexpr bool is_full(Flags<wire::JoinState> state) {
  return state.has(wire::JoinState::FullMember) || state.has(wire::JoinState::SendOnlyFullMember);
}
/// True for states in which the port receives the group's packets.
[[nodiscard]] constexpr bool receives(Flags<wire::JoinState> state) {
  return state.has(wire::JoinState::FullMember) || state.has(wire::JoinState::NonMember);
}

/// Multicast groups of a subnet with their members and MLIDs. It enforces limits, but not access
/// rights; those are checked by the caller. Groups with the same MLID share a spanning tree. Not
/// thread-safe.
class SaGroups {
 public:
  /// Upper bounds.
  struct Limits {
    std::size_t mlids{16383};  ///< 0xC000 .. 0xFFFE; switches may have fewer
    std::size_t groups{16383};
    std::size_t memberships_per_requester{1024};  ///< policy, not from the specification
  };
  explicit SaGroups(const Limits& limits) : limits_(limits) {}

  void set_mlid_limit(std::size_t mlids) { limits_.mlids = mlids; }

  [[nodiscard]] const std::map<Gid, SaGroup>& groups() const { return groups_; }
  [[nodiscard]] const SaGroup* find(const Gid& mgid) const;
  [[nodiscard]] std::size_t memberships_requested_by(Guid requesting_port) const;

  [[nodiscard]] bool has_room() const { return groups_.size() < limits_.groups; }
  [[nodiscard]] bool has_room_for(Guid requesting_port) const {
    return memberships_requested_by(requesting_port) < limits_.memberships_per_requester;
  }

  /// The lowest unused MLID; none if all are in use.
  [[nodiscard]] std::optional<Lid> free_mlid() const;
  /// True if switches can forward the MLID and it is unused or used by groups of the same partition
  /// only.
  [[nodiscard]] bool may_use(Lid mlid, PKey pkey) const;
  /// An unused transient MGID with SA's signature and link-local scope (§15.2.5.17).
  [[nodiscard]] Gid make_mgid(std::uint64_t subnet_prefix, std::uint8_t scope);

  /// The MGID must be new and the MLID usable (may_use).
  void create(const wire::McMemberRecord& properties, bool is_permanent);
  /// Adds a member, or adds join state bits to an existing one. The group must exist.
  void join(const Gid& mgid, Guid port, const GroupMember& member);
  /// Removes join state bits, and the member when none is left. Returns true if the group was
  /// deleted because no full member is left; its other members are removed with it.
  bool leave(const Gid& mgid, Guid port, Flags<wire::JoinState> join_state);
  /// Removes the port from all groups. Returns the MGIDs of groups deleted thereby.
  [[nodiscard]] std::vector<Gid> remove_port(Guid port);

  /// A port in the tree of an MLID, united over all groups with that MLID.
  struct TreeMember {
    Guid port{};
    bool receives{};
    friend bool operator==(const TreeMember&, const TreeMember&) = default;
  };
  [[nodiscard]] std::vector<TreeMember> tree_members(Lid mlid) const;
  /// Returns and clears the MLIDs whose trees must be recomputed.
  [[nodiscard]] std::set<Lid> take_changed_mlids();
  [[nodiscard]] bool has_changes() const { return !changed_.empty(); }
  void mark_changed(Lid mlid) { changed_.insert(mlid); }
  void mark_all_changed();

 private:
  void erase(std::map<Gid, SaGroup>::iterator group);
  void forget_membership(Guid port, const Gid& mgid, Guid requesting_port);

  Limits limits_;
  std::map<Gid, SaGroup> groups_;
  std::map<Lid, std::set<Gid>> groups_of_mlid_;
  std::map<Guid, std::set<Gid>> groups_of_port_;
  std::map<Guid, std::size_t> requested_by_;
  std::set<Lid> changed_;
  std::uint32_t last_made_{};
};

}  // namespace weft::subnet
