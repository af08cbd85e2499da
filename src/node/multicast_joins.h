#pragma once

// What a host's kernel side does for programs that attach QPs to multicast groups: it makes their
// ports members, by asking the SA as anybody does (IBTA vol 1 §15.2.5.17). Pure. One thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "fabric/tables.h"
#include "mad/agent_table.h"
#include "node/management_plane.h"
#include "wire/mad/mad.h"

namespace weft::node {

class MulticastJoins {
 public:
  /// Both must outlive it.
  MulticastJoins(const fabric::TablesBuilder& tables, ManagementPlane& plane)
      : tables_(tables), plane_(plane) {}

  /// One more QP behind the port, or one less: the port is a full member from the first to the
  /// last. A group that does not exist is made, with that MLID if SA has it free.
  void join(fabric::PortIndex port, const Gid& mgid, Lid mlid, Instant now);
  void leave(fabric::PortIndex port, const Gid& mgid, Instant now);

  /// Some QP behind the port is in the group.
  [[nodiscard]] bool holds(fabric::PortIndex port, const Gid& mgid) const {
    return groups_.contains({port, mgid});
  }
  /// Who else makes ports full members, which they stay when the last QP leaves: the host's SA
  /// client, for RDMA-CM.
  using OtherHolder = std::function<bool(fabric::PortIndex port, const Gid& mgid)>;
  void share_with(OtherHolder other) { is_held_by_other_ = std::move(other); }

  /// Makes groups that turned out to be missing, and joins again where a subnet manager has asked
  /// clients to register again (§14.4.11). True: something was asked.
  bool refresh(Instant now);

 private:
  struct Group {
    Lid mlid{};
    std::size_t qps{};
    std::uint8_t registered{};  // PortRecord::reregistrations when it was joined
  };
  using Key = std::pair<fabric::PortIndex, Gid>;

  /// Whether the record says all that a group is made of, or only who joins what.
  enum class Form : std::uint8_t { Join, Make };
  void ask(const Key& key, Lid mlid, wire::MadMethod method, Form form, Instant now);
  [[nodiscard]] mad::AgentId agent_at(fabric::PortIndex port);

  const fabric::TablesBuilder& tables_;
  ManagementPlane& plane_;
  std::map<Key, Group> groups_;
  std::map<fabric::PortIndex, mad::AgentId> agents_;
  OtherHolder is_held_by_other_;
  std::vector<Key> missing_;  // SA did not let us join: they are to be made
};

}  // namespace weft::node
