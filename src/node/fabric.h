#pragma once

// A whole fabric for its owner, the daemon or an embedding program: tables, processes of each host,
// lanes between them, multicast memberships, and the cleanup after a process. Pure: it decides; the
// owner transfers messages and memory. Not thread-safe.

#include <algorithm>
#include <compare>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/addresses.h"
#include "fabric/tables.h"
#include "fabric/topology.h"
#include "node/fault_rules.h"
#include "node/management_plane.h"
#include "node/multicast_joins.h"
#include "node/node_change.h"
#include "node/port_change.h"
#include "node/process_slots.h"

namespace weft::node {

class HostServicesTable;
class SubnetServices;

/// A process, by its host and its slot there.
struct ProcessId {
  fabric::NodeIndex host;
  std::uint32_t slot{};
  auto operator<=>(const ProcessId&) const = default;
};

/// A host that is there, and the addresses of its ports (fabric/addresses.h), the main one first.
struct HostAddresses {
  fabric::NodeIndex host;
  std::string name;
  std::vector<InterfaceAddress> addresses;
};

/// What the owner must do after a process detached.
struct DetachResult {
  std::vector<ProcessId> peers;  // peers to notify that their lane is closed
  std::vector<Lid> groups;       // groups with changed membership
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

/// A fabric of hosts and switches, with its management.
class Fabric {
 public:
  /// Creates a fabric and, if it has its own subnet manager, brings it up. `topology` must be
  /// valid.
  [[nodiscard]] static Result<std::unique_ptr<Fabric>> create(const fabric::Topology& topology,
                                                              Instant now,
                                                              const FabricOptions& options = {});
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  [[nodiscard]] const fabric::TablesBuilder& builder() const { return builder_; }

  [[nodiscard]] ManagementPlane& management() { return management_; }
  /// Kernel-side services of the hosts: SA clients, address resolvers, connection managers.
  [[nodiscard]] HostServicesTable& hosts() { return *hosts_; }
  /// Address of the host that `WEFT_LOOPBACK=h1` selects; none if there is no such host.
  [[nodiscard]] std::optional<IpAddress> main_address_of(std::string_view host) const {
    return fabric::main_address_of(topology_, host);
  }
  /// Of all hosts, in the topology's order.
  [[nodiscard]] std::vector<HostAddresses> host_addresses() const;
  /// True if one of the fabric's own subnet managers runs at the port.
  [[nodiscard]] bool is_managed_from(fabric::PortIndex port) const {
    return std::ranges::find(managers_, port, &Manager::port) != managers_.end();
  }

  /// For each reroute since the last call: the time from the trap to the last table written.
  [[nodiscard]] std::vector<Duration> take_reroutes();

  /// Processes MADs until none is pending or the work limit of one call is reached. Returns true in
  /// the latter case.
  bool run_management(Instant now);
  [[nodiscard]] Instant management_deadline() const;

  /// Builds the table image of the next generation.
  [[nodiscard]] std::vector<std::byte> next_tables() { return builder_.build(++generation_); }
  [[nodiscard]] std::uint64_t generation() const { return generation_; }

  /// The caller must publish the tables, before the process hears of them, if
  /// take_slots_changed() says so.
  [[nodiscard]] Result<ProcessId> attach(std::string_view host, Instant now);
  /// True if virtual functions have other process slots than at the last call.
  [[nodiscard]] bool take_slots_changed() { return std::exchange(slots_changed_, false); }
  [[nodiscard]] DetachResult detach(ProcessId process, Instant now);
  [[nodiscard]] bool has(ProcessId process) const { return processes_.contains(process); }

  /// Adds a lane between two processes. Returns false if they already have one.
  [[nodiscard]] Result<bool> join_lane(ProcessId a, ProcessId b);

  /// A QP of `process` was attached to or detached from a group on a port of its host. Returns true
  /// if the set of member processes changed.
  [[nodiscard]] Result<bool> join_group(ProcessId process, fabric::PortIndex port, const Gid& mgid,
                                        Lid mlid, Instant now);
  [[nodiscard]] Result<bool> leave_group(ProcessId process, fabric::PortIndex port, const Gid& mgid,
                                         Lid mlid, Instant now);
  [[nodiscard]] std::vector<ProcessId> members(Lid mlid) const;

  /// PortInfo counts them, and the port's SMA tells its subnet manager (traps 257 and 258).
  [[nodiscard]] Result<void> note_bad_keys(ProcessId process, const BadKeyReport& report,
                                           Instant now);
  [[nodiscard]] std::vector<Lid> groups() const;

  /// Resolves `h1`, `h1:1`, `h1/weft1:2`, `s1` or `s1:3` to a port, or to all cabled ports of a
  /// node.
  [[nodiscard]] Result<std::vector<fabric::PortIndex>> find_ports(std::string_view name) const;

  /// Adds a fault rule. Returns its number.
  [[nodiscard]] Result<std::uint32_t> add_fault(const fabric::FaultDescription& fault, Instant now);
  [[nodiscard]] FaultRules& faults() { return faults_; }

  /// Plugs or unplugs a port's cable, or changes port settings. The caller must publish the tables.
  [[nodiscard]] Result<void> change_port(fabric::PortIndex port, const PortChange& change,
                                         Instant now);

  /// Maximum number of ports that can be added at run time; policy, not from the specification.
  /// Tables indexed by port are allocated with this reserve.
  static constexpr std::uint32_t kReservedPorts = 65'536;

  /// Adds or removes a host or switch, or changes a virtual function; new cables get the attributes
  /// of the initial ones. The caller must publish the tables, and then detach the processes of a
  /// removed host.
  [[nodiscard]] Result<void> change_node(const NodeChange& change, Instant now);

  /// Gives an HCA of a host so many virtual functions at its first port, named as those of a
  /// topology's `vfs`, or none: all or nothing, as a kernel's `sriov_numvfs`. They go though
  /// programs run there. Busy: it has some, and another number. As change_node() for the rest.
  [[nodiscard]] Result<void> set_function_count(fabric::HcaIndex hca, std::uint32_t count,
                                                Instant now);
  /// The hosts whose ports a virtual function shares, or has shared.
  [[nodiscard]] std::vector<fabric::NodeIndex> hosts_shared_by(fabric::NodeIndex function) const;
  /// The ports of virtual functions that have been given none of a host's.
  [[nodiscard]] std::vector<fabric::PortIndex> unassigned_functions() const;

  /// Adds or removes a capture on a port (reference counted).
  void tap(fabric::PortIndex port);
  void untap(fabric::PortIndex port);

 private:
  struct Membership {
    ProcessId process;
    fabric::PortIndex port;
    Gid mgid;
    auto operator<=>(const Membership&) const = default;
  };
  /// One of the fabric's own subnet managers.
  struct Manager {
    fabric::PortIndex port;
    std::unique_ptr<SubnetServices> services;
    bool link_is_down{};
    std::uint64_t reroutes{};  // reroutes already returned by take_reroutes()
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
  [[nodiscard]] Result<void> check_new_name(const NodeChange& change) const;
  // virtual_functions.cc
  [[nodiscard]] Result<void> add_function(const NodeChange& change, Instant now);
  [[nodiscard]] Result<void> add_functions_of_topology(Instant now);
  [[nodiscard]] Result<void> describe(const FunctionChange& change, fabric::PortIndex physical,
                                      std::string_view port_name,
                                      fabric::FunctionDescription& wanted) const;
  [[nodiscard]] Result<fabric::PortIndex> find_physical(std::string_view name) const;
  [[nodiscard]] Result<fabric::PortIndex> find_function(std::string_view name) const;
  struct FunctionPlace {
    SharedPorts::Function to;
    std::uint32_t first_slot{};  // lent by the port's host
    fabric::FunctionDescription wanted;
  };
  [[nodiscard]] Result<FunctionPlace> find_place(const NodeChange& change, Instant now);
  [[nodiscard]] Result<fabric::PortIndex> add_function_host(const std::string& name, Instant now);
  [[nodiscard]] Result<void> take_place(fabric::PortIndex port, const FunctionPlace& place,
                                        Instant now);
  void adopt_connections(fabric::PortIndex physical, Instant now);
  [[nodiscard]] Result<void> set_function(const NodeChange& change, Instant now);
  [[nodiscard]] Result<void> move_function(const NodeChange& change, Instant now);
  [[nodiscard]] Result<fabric::FunctionDescription> describe_at(fabric::PortIndex port,
                                                                fabric::PortIndex physical,
                                                                std::string_view port_name) const;
  void make_room_for(fabric::PortIndex physical, std::uint32_t number, Instant now);
  [[nodiscard]] std::uint32_t find_number(fabric::PortIndex physical, std::uint32_t preferred,
                                          Instant now) const;
  [[nodiscard]] Result<void> check_removal(fabric::NodeIndex node, bool is_forced) const;
  void remove_function_of(fabric::NodeIndex node, Instant now);
  // function_assignment.cc
  [[nodiscard]] FunctionChange* find_unassigned(std::string_view name);
  [[nodiscard]] Result<void> check_assigned(fabric::PortIndex port) const;
  [[nodiscard]] Result<void> assign_function(const NodeChange& change, Instant now);
  [[nodiscard]] Result<void> unassign_function(const NodeChange& change, Instant now);
  // function_guids.cc
  [[nodiscard]] Result<void> check_guids(std::string_view name, const FunctionGuids& guids) const;
  void set_guids(fabric::PortIndex port, const FunctionGuids& guids, Instant now);
  void forget_gid_of_removed(Guid guid);
  // function_counts.cc
  [[nodiscard]] Result<void> add_functions(fabric::HcaIndex hca, std::uint32_t count, Instant now);
  [[nodiscard]] Result<void> remove_functions(const std::vector<std::string>& names, Instant now);
  // function_slots.cc
  [[nodiscard]] Result<std::uint32_t> take_slot(fabric::NodeIndex node, Instant now);
  [[nodiscard]] std::optional<std::uint32_t> lend_slots(fabric::NodeIndex lender, Instant now);
  [[nodiscard]] bool reclaim_slots(fabric::NodeIndex lender, Instant now);
  void hand_over_slots(fabric::NodeIndex lender, std::uint32_t first, fabric::PortIndex function);
  void take_back_slots(fabric::NodeIndex lender, fabric::PortIndex function, Instant now);
  [[nodiscard]] std::optional<std::vector<std::uint32_t>> lend_slots_to(fabric::NodeIndex lender,
                                                                        fabric::PortIndex function,
                                                                        Instant now);
  void disconnect(fabric::NodeIndex node, Instant now);
  [[nodiscard]] Result<fabric::EndPoint> find_free_port(std::string_view name) const;
  [[nodiscard]] Result<std::vector<fabric::LinkDescription>> links_of(
      const NodeChange& change, const fabric::Topology& topology) const;
  void report_own_link(Manager& manager, Instant now);
  void end_membership(const Membership& membership, Lid mlid, Instant now);
  [[nodiscard]] Result<void> check_group(ProcessId process, fabric::PortIndex port, Lid mlid) const;

  fabric::Topology topology_;  // includes removed nodes, without their cables
  bool has_subnet_manager_;
  std::uint8_t sm_priority_;
  fabric::TablesBuilder builder_;
  std::size_t max_ports_;
  ManagementPlane management_;
  MulticastJoins joins_;
  std::unique_ptr<HostServicesTable> hosts_;
  std::vector<Manager> managers_;  // one per connected part of the fabric
  std::uint64_t generation_{};
  std::map<fabric::NodeIndex, ProcessSlots> slots_;
  bool slots_changed_{};
  std::map<fabric::NodeIndex, std::set<fabric::NodeIndex>> shared_by_;  // hosts, by function
  std::map<fabric::PortIndex, FunctionChange> unassigned_;              // functions without a port
  std::map<ProcessId, std::set<ProcessId>> processes_;  // each with the processes it has lanes to
  std::map<Lid, std::map<Membership, std::uint32_t>> groups_;  // with the number of attached QPs
  std::map<fabric::PortIndex, std::uint32_t> taps_;
  std::set<fabric::PortIndex> unplugged_;  // links, named by their lower port index
  FaultRules faults_;
};

}  // namespace weft::node
