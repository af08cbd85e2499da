#pragma once

// A whole fabric as its owner sees it (the daemon, or a program that embeds one): the tables, the
// processes on each host, who is joined to whom, and what happens when one dies. Pure: it decides,
// its owner carries messages and memory. One thread.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/tables.h"
#include "fabric/topology.h"
#include "node/fault_rules.h"
#include "node/host_services.h"
#include "node/management_plane.h"
#include "node/multicast_joins.h"
#include "node/node_change.h"
#include "node/port_change.h"
#include "node/process_slots.h"
#include "node/subnet_services.h"

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

/// Packets that a process dropped for their key at a port of its host.
struct BadKeyReport {
  fabric::PortIndex port;
  bool is_qkey{};  // else P_Key
  std::uint32_t count{};
  agents::BadKey last;
};

struct FabricOptions {
  bool has_subnet_manager{true};      // its own; without one, ports wait in Initialize for another
  std::uint8_t sm_priority{};         // 0 to 15
  std::string sm_port{};              // as find_ports() names it; empty: the first HCA port
  std::uint64_t seed{};               // of what peers should not be able to guess
  fabric::CounterSource* counters{};  // for performance management; must outlive the fabric
  fabric::FaultCounters faults{};     // of its rules, as all who send count; none: MADs meet none
};

class Fabric {
 public:
  /// Brings the whole fabric up, if it has a subnet manager of its own. `topology` must be valid.
  [[nodiscard]] static Result<std::unique_ptr<Fabric>> create(const fabric::Topology& topology,
                                                              Instant now,
                                                              const FabricOptions& options = {});

  [[nodiscard]] const fabric::TablesBuilder& builder() const { return builder_; }

  [[nodiscard]] ManagementPlane& management() { return management_; }
  /// The kernel sides of hosts: SA clients, the resolver of IP addresses, connection managers.
  [[nodiscard]] HostServicesTable& hosts() { return hosts_; }
  /// That `WEFT_LOOPBACK=h1` names; none: there is no such host.
  [[nodiscard]] std::optional<IpAddress> main_address_of(std::string_view host) const {
    return fabric::main_address_of(topology_, host);
  }
  /// A subnet manager of the fabric's own is at the port.
  [[nodiscard]] bool is_managed_from(fabric::PortIndex port) const {
    return std::ranges::find(managers_, port, &Manager::port) != managers_.end();
  }

  /// A manager wrote new routes because of a trap: how long after it. Since the last call.
  [[nodiscard]] std::vector<Duration> take_reroutes();

  /// Moves MADs until all is quiet or a turn is over; true: there is more to do at once.
  bool run_management(Instant now);
  [[nodiscard]] Instant management_deadline() const;

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
  [[nodiscard]] Result<bool> join_group(ProcessId process, fabric::PortIndex port, const Gid& mgid,
                                        Lid mlid, Instant now);
  [[nodiscard]] Result<bool> leave_group(ProcessId process, fabric::PortIndex port, const Gid& mgid,
                                         Lid mlid, Instant now);
  [[nodiscard]] std::vector<ProcessId> members(Lid mlid) const;

  /// PortInfo counts them, and the port's SMA tells its subnet manager (traps 257 and 258).
  [[nodiscard]] Result<void> note_bad_keys(ProcessId process, const BadKeyReport& report,
                                           Instant now);
  [[nodiscard]] std::vector<Lid> groups() const;

  /// `h1`, `h1:1`, `h1/weft1:2`, `s1`, `s1:3`: one port, or all cabled ports of the node.
  [[nodiscard]] Result<std::vector<fabric::PortIndex>> find_ports(std::string_view name) const;

  /// A rule of faults; its number, by which it is known.
  [[nodiscard]] Result<std::uint32_t> add_fault(const fabric::FaultDescription& fault, Instant now);
  [[nodiscard]] FaultRules& faults() { return faults_; }

  /// Pulls the cable of a port or puts it back, or sets the port; the tables are to be published.
  [[nodiscard]] Result<void> change_port(fabric::PortIndex port, const PortChange& change,
                                         Instant now);

  /// Ports that may be added to those a fabric begins with; policy. Who keeps memory by port makes
  /// it so much larger.
  static constexpr std::uint32_t kSparePorts = 65'536;

  /// A host or switch comes or goes; the tables are to be published, and then the processes of a
  /// host that is gone are to be detached. New cables are like the fabric's first.
  [[nodiscard]] Result<void> change_node(const NodeChange& change, Instant now);

  /// Captures of a port, counted; the port shows its packets while there is one.
  void tap(fabric::PortIndex port);
  void untap(fabric::PortIndex port);

 private:
  struct Membership {
    ProcessId process;
    fabric::PortIndex port;
    Gid mgid;
    auto operator<=>(const Membership&) const = default;
  };
  /// A subnet manager of the fabric's own.
  struct Manager {
    fabric::PortIndex port;
    std::unique_ptr<SubnetServices> services;
    bool link_is_down{};
    std::uint64_t reroutes{};  // that were taken
  };

  Fabric(const fabric::Topology& topology, const FabricOptions& options);
  void update_link(fabric::PortIndex link, Instant now);
  [[nodiscard]] Result<void> bring_up(const FabricOptions& wanted, Instant now);
  [[nodiscard]] Result<std::optional<fabric::PortIndex>> find_manager_port(
      std::string_view name) const;
  [[nodiscard]] Result<void> start_managers(std::optional<fabric::PortIndex> wanted, Instant now);
  // fabric_nodes.cc
  [[nodiscard]] Result<void> add_node(const NodeChange& change, Instant now);
  [[nodiscard]] Result<void> remove_node(const NodeChange& change, Instant now);
  [[nodiscard]] Result<fabric::EndPoint> find_free_port(std::string_view name) const;
  [[nodiscard]] Result<std::vector<fabric::LinkDescription>> links_of(
      const NodeChange& change, const fabric::Topology& topology) const;
  void tell_of_own_link(Manager& manager, Instant now);
  void end_membership(const Membership& membership, Lid mlid, Instant now);
  [[nodiscard]] Result<void> check_group(ProcessId process, fabric::PortIndex port, Lid mlid) const;

  fabric::Topology topology_;  // with nodes that are gone, but not their cables
  bool has_subnet_manager_;
  std::uint8_t sm_priority_;
  fabric::TablesBuilder builder_;
  std::size_t most_ports_;
  ManagementPlane management_;
  MulticastJoins joins_;
  HostServicesTable hosts_;
  std::vector<Manager> managers_;  // one for each part that no cable joins to another
  std::uint64_t generation_{};
  std::map<fabric::NodeIndex, ProcessSlots> slots_;
  std::map<ProcessId, std::set<ProcessId>> processes_;         // and those they are joined to
  std::map<Lid, std::map<Membership, std::uint32_t>> groups_;  // and how many QPs
  std::map<fabric::PortIndex, std::uint32_t> taps_;
  std::set<fabric::PortIndex> unplugged_;  // links, by their lower port
  FaultRules faults_;
};

}  // namespace weft::node
