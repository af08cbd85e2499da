#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "subnet/routing/graph.h"
#include "subnet/routing/routing.h"
#include "subnet/smp_client.h"
#include "subnet/subnet.h"
#include "subnet/subnet_control.h"
#include "subnet/subnet_manager_options.h"

namespace weft::subnet {

/// Members of each multicast group by port GUID, including ports that are currently absent.
using MulticastGroups = std::map<Lid, std::map<Guid, MulticastRole>>;

/// Configures a subnet: compares the wanted state with what SMAs reported or accepted earlier, and
/// yields only the SMPs for the differences. The owner sends them; responses update the subnet. Not
/// thread-safe.
class Setup {
 public:
  /// Nodes whose current tables are known; those of others are written completely.
  struct Known {
    std::vector<bool> forwarding;  ///< by node
    std::vector<bool> multicast;   ///< by node
  };

  /// Construct it from the subnet as reported by the SMAs, before changing any wanted attribute.
  Setup(Subnet& subnet, const SubnetManagerOptions& options, const RoutingGraph& graph,
        const Routing& routing, const MulticastGroups& groups);

  /// Ports that get the client reregistration bit.
  void set_reregister(std::set<Guid> ports) { reregister_ = std::move(ports); }
  void set_master(Lid lid) { master_lid_ = lid; }

  // To be called in this order. Each call plans the requests that next() yields.
  void plan_tables(const Known& known);
  void plan_ports();   ///< all of PortInfo, and the transition to Armed
  void plan_active();  ///< the transition to Active
  void plan_multicast(const Known& known);
  void plan_guids(PortId port, std::vector<Guid> guids);

  [[nodiscard]] std::optional<SmpRequest> next();
  [[nodiscard]] SmpData data_of(const SmpRequest& request) const;
  void take(const SmpRequest& request, const SmpAnswer& answer);
  /// Number of requests that timed out or were refused.
  [[nodiscard]] std::uint32_t failures() const { return failures_; }

 private:
  void plan_forwarding(NodeId node, bool is_known);
  void plan_multicast_of(NodeId node, bool is_known);
  void plan_switch_info(NodeId node);
  void plan_pkeys(PortId port);
  void plan_lanes(PortId port);
  void wanted_multicast();
  [[nodiscard]] PortMask wanted_mask(NodeId node, std::uint32_t group) const;
  [[nodiscard]] std::vector<PKey> wanted_pkeys(PortId port) const;
  [[nodiscard]] wire::PortInfo wanted_info(PortId port, wire::LinkState state) const;
  [[nodiscard]] wire::SwitchInfo wanted_switch_info(NodeId node) const;
  [[nodiscard]] wire::PortInfo& reported(PortId port);
  [[nodiscard]] const wire::PortInfo& reported(PortId port) const;
  void plan(PortId to, wire::SmpAttribute attribute, std::uint32_t modifier);
  [[nodiscard]] SmpData port_info_data(PortId port) const;
  void take_multicast(const SmpRequest& request, const wire::MulticastForwardingTable& table);
  void take_table(const SmpRequest& request, const SmpAnswer& answer);
  void for_each_managed_port(void (Setup::*visit)(PortId));
  void plan_port(PortId port);
  void plan_active_port(PortId port);

  Subnet& subnet_;
  const SubnetManagerOptions& options_;
  const RoutingGraph& graph_;
  const Routing& routing_;
  const MulticastGroups& groups_;
  std::vector<std::uint32_t> first_port_;  // index in reported_, by node
  std::vector<wire::PortInfo> reported_;
  std::vector<std::vector<PortMask>> masks_;   // by position and group
  std::map<PortId, std::vector<Guid>> guids_;  // still to be written
  std::set<Guid> reregister_;
  Lid master_lid_{};
  std::vector<SmpRequest> requests_;
  std::size_t next_{};
  std::uint32_t failures_{};
};

}  // namespace weft::subnet
