#pragma once

// Joins ports to the multicast groups that programs attach QPs to, by requests to SA like those of
// any client (IBTA vol 1 §15.2.5.17). Pure, not thread-safe.

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

/// The memberships of all ports that result from attached QPs.
class MulticastJoins {
 public:
  /// `tables` and `plane` must outlive it.
  MulticastJoins(const fabric::TablesBuilder& tables, ManagementPlane& plane)
      : tables_(tables), plane_(plane) {}

  /// A QP of the port was attached to or detached from the group. The port is a full member as long
  /// as it has one. A missing group is created, with this MLID if SA has it free.
  void join(fabric::PortIndex port, const Gid& mgid, Lid mlid, Instant now);
  void leave(fabric::PortIndex port, const Gid& mgid, Instant now);

  /// True if a QP of the port is attached to the group.
  [[nodiscard]] bool holds(fabric::PortIndex port, const Gid& mgid) const {
    return groups_.contains({port, mgid});
  }
  /// Registers another owner of full memberships, the host's SA client for RDMA-CM: these are kept
  /// when the last QP is detached.
  using OtherOwner = std::function<bool(fabric::PortIndex port, const Gid& mgid)>;
  void set_other_owner(OtherOwner other) { is_held_by_other_owner_ = std::move(other); }

  /// Creates groups that SA reported missing, and rejoins after a client reregistration request
  /// (§14.4.11). Returns true if it sent a request.
  bool refresh(Instant now);

 private:
  struct Group {
    Lid mlid{};
    std::size_t qps{};
    std::uint8_t registered{};  // PortRecord::reregistrations when it was joined
  };
  using Key = std::pair<fabric::PortIndex, Gid>;

  /// Whether the request carries all components to create the group, or those of a join only.
  enum class Form : std::uint8_t { Join, Make };
  void ask(const Key& key, Lid mlid, wire::MadMethod method, Form form, Instant now);
  [[nodiscard]] mad::AgentId agent_at(fabric::PortIndex port);

  const fabric::TablesBuilder& tables_;
  ManagementPlane& plane_;
  std::map<Key, Group> groups_;
  std::map<fabric::PortIndex, mad::AgentId> agents_;
  OtherOwner is_held_by_other_owner_;
  std::vector<Key> missing_;  // groups that do not exist at SA yet and must be created
};

}  // namespace weft::node
