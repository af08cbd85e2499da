#pragma once

// A whole fabric as its owner sees it (the daemon, or a program that embeds one): the tables, the
// processes on each host, who is joined to whom, and what happens when one dies. Pure: it decides,
// its owner carries messages and memory. One thread.

#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/standin_subnet_manager.h"
#include "fabric/tables.h"
#include "fabric/topology.h"
#include "node/fault_rules.h"
#include "node/management_plane.h"
#include "node/port_change.h"
#include "node/process_slots.h"

namespace weft::node {

/// A process: its host and its slot there.
struct ProcessId {
  fabric::NodeIndex host;
  std::uint32_t slot{};
  auto operator<=>(const ProcessId&) const = default;
};

/// What is to be done because a process is gone.
struct Departure {
  std::vector<ProcessId> peers;  // to be told that their lane to it is closed
  std::vector<Lid> groups;       // whose membership changed
};

struct FabricOptions {
  bool has_subnet_manager{true};      // its own; without one, ports wait in Initialize for another
  agents::CounterSource* counters{};  // for performance management; must outlive the fabric
};

class Fabric {
 public:
  /// Brings the whole fabric up, as far as it has a subnet manager. `topology` must be valid.
  [[nodiscard]] static Result<std::unique_ptr<Fabric>> create(const fabric::Topology& topology,
                                                              const FabricOptions& options = {});

  [[nodiscard]] const fabric::TablesBuilder& builder() const { return builder_; }

  [[nodiscard]] ManagementPlane& management() { return management_; }

  /// The image of the next generation.
  [[nodiscard]] std::vector<std::byte> next_tables() { return builder_.build(++generation_); }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }

  [[nodiscard]] Result<ProcessId> attach(std::string_view host, Instant now);
  [[nodiscard]] Departure detach(ProcessId process, Instant now);
  [[nodiscard]] bool has(ProcessId process) const { return processes_.contains(process); }

  /// Joins two processes by a lane. False: they are joined already.
  [[nodiscard]] Result<bool> join_lane(ProcessId a, ProcessId b);

  /// A QP of `process` joined or left a group on a port of its host. True: the processes of the
  /// group changed.
  [[nodiscard]] Result<bool> join_group(ProcessId process, fabric::PortIndex port, Lid mlid);
  [[nodiscard]] Result<bool> leave_group(ProcessId process, fabric::PortIndex port, Lid mlid);
  [[nodiscard]] std::vector<ProcessId> members(Lid mlid) const;
  [[nodiscard]] std::vector<Lid> groups() const;

  /// `h1`, `h1:1`, `h1/weft1:2`, `s1`, `s1:3`: one port, or all cabled ports of the node.
  [[nodiscard]] Result<std::vector<fabric::PortIndex>> find_ports(std::string_view name) const;

  /// A rule of faults; its number, by which it is known.
  [[nodiscard]] Result<std::uint32_t> add_fault(const fabric::FaultDescription& fault, Instant now);
  [[nodiscard]] FaultRules& faults() { return faults_; }

  /// Pulls the cable of a port or puts it back, or sets the port; the tables are to be published.
  [[nodiscard]] Result<void> change_port(fabric::PortIndex port, const PortChange& change,
                                         Instant now);

  /// Captures of a port, counted; the port shows its packets while there is one.
  void tap(fabric::PortIndex port);
  void untap(fabric::PortIndex port);

 private:
  Fabric(const fabric::Topology& topology, const FabricOptions& options);
  void update_link(fabric::PortIndex link, Instant now);
  void activate(fabric::PortIndex link);
  [[nodiscard]] Result<void> check_group(ProcessId process, fabric::PortIndex port, Lid mlid) const;

  struct Membership {
    ProcessId process;
    fabric::PortIndex port;
    auto operator<=>(const Membership&) const = default;
  };

  fabric::Topology topology_;
  fabric::TablesBuilder builder_;
  ManagementPlane management_;
  bool has_subnet_manager_;
  fabric::StandInSubnetManager subnet_manager_;
  std::uint64_t generation_{};
  std::map<fabric::NodeIndex, ProcessSlots> slots_;
  std::map<ProcessId, std::set<ProcessId>> processes_;         // and those they are joined to
  std::map<Lid, std::map<Membership, std::uint32_t>> groups_;  // and how many QPs
  std::map<fabric::PortIndex, std::uint32_t> taps_;
  std::set<fabric::PortIndex> unplugged_;  // links, by their lower port
  FaultRules faults_;
};

}  // namespace weft::node
