#pragma once

// Management of a whole fabric: the agents of all nodes, the network that carries MADs, management
// interfaces for those ports that have users, and the manager of Omni-Path parts. Pure: MADs move
// when run() is called. Not thread-safe.

#include <cstddef>
#include <memory>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "agents/fabric_agents.h"
#include "base/result.h"
#include "base/time.h"
#include "carriage/management_network.h"
#include "fabric/counter_source.h"
#include "fabric/tables.h"
#include "mad/datagram.h"
#include "mad/limits.h"
#include "node/management_port.h"
#include "node/omni_path_manager.h"
#include "node/omni_path_users.h"
#include "node/shared_ports.h"

namespace weft::node {

/// Configuration of a ManagementPlane.
struct ManagementPlaneOptions {
  TimeScale time_scale;               // of traps
  mad::Limits limits{};               // of each interface
  fabric::CounterSource* counters{};  // of ports; none: those of the plane's own packets alone
  fabric::FaultCounters faults{};     // of the rules in the tables; none: they hit no MAD
};

class ManagementPlane final : private carriage::MadSink {
 public:
  /// Work limits (policy, not from the specification): MADs carried in one run(), and MADs taken
  /// from one interface before the next interface is served.
  static constexpr std::size_t kMadsPerRun = 512;
  static constexpr std::size_t kMadsPerInterface = 32;

  /// Starts with the fabric in the state after power-on (see FabricAgents). `tables` and the
  /// counter source must outlive it.
  explicit ManagementPlane(fabric::TablesBuilder& tables,
                           const ManagementPlaneOptions& options = {});

  /// The management interfaces of an HCA port, or of a switch's port 0 for any of its ports;
  /// created on first use and scheduled for run(). Call wake() after using a stored reference.
  [[nodiscard]] ManagementPort& port(fabric::PortIndex index);
  void wake(fabric::PortIndex index);

  /// Carries MADs until none is pending or the work limit is reached. Returns true in the latter
  /// case.
  bool run(Instant now);
  [[nodiscard]] Instant deadline() const;

  /// True if the tables changed since the last call and must be published.
  [[nodiscard]] bool tables_changed() {
    const bool by_functions = shared_.take_tables_changed();
    const bool by_omni_path = std::exchange(omni_path_changed_, false);
    return agents_.take_tables_changed() || by_functions || by_omni_path;
  }

  /// Ports that virtual functions share.
  [[nodiscard]] SharedPorts& shared_ports() { return shared_; }
  [[nodiscard]] const SharedPorts& shared_ports() const { return shared_; }

  /// Sees the MADs that cross ports with a capture; must outlive the plane.
  void set_tap(carriage::LinkTap* tap) { network_.set_tap(tap); }
  /// Of the links, in memory that all who send on them share; none: MADs wait for nobody there.
  void set_clocks(const fabric::DepartureClocks& clocks) { network_.set_clocks(clocks); }
  /// Whether links take their time of MADs; as a rule they do.
  void set_takes_time(bool takes) { network_.set_takes_time(takes); }

  /// Sends a kernel-side datagram from an HCA port; set_sink sets the receiver of arriving ones,
  /// which must outlive the plane. Those of a virtual function leave by its physical port.
  void send(fabric::PortIndex from, mad::Datagram datagram, Instant now);
  void set_sink(carriage::DatagramSink* sink) {
    sink_ = sink;
    network_.set_sink(sink);
  }

  /// The tables have additional nodes: powers them on.
  void grow(Instant now);

  /// Takes the cable's link up or down.
  [[nodiscard]] Result<void> set_link(fabric::PortIndex port, bool is_up, Instant now);
  /// Changes port settings, as a local administrator would.
  [[nodiscard]] Result<void> configure(fabric::PortIndex port, const agents::PortSettings& settings,
                                       Instant now);

  /// Of the Omni-Path parts; what it is told takes effect in the next run().
  [[nodiscard]] OmniPathManager& omni_path() { return omni_path_; }
  [[nodiscard]] const OmniPathManager& omni_path() const { return omni_path_; }
  /// Programs at ports of these.
  [[nodiscard]] OmniPathUsers& omni_path_users() { return omni_path_users_; }

  [[nodiscard]] agents::FabricAgents& agents() { return agents_; }
  [[nodiscard]] const carriage::NetworkCounters& network_counters() const {
    return network_.counters();
  }

 private:
  using Ports = std::unordered_map<fabric::PortIndex, std::unique_ptr<ManagementPort>>;

  void deliver(fabric::PortIndex at, mad::InterfaceKind kind, const mad::MadAddress& source,
               const mad::MadBytes& mad, Instant now) override;
  void copy_to_functions(fabric::PortIndex physical, const Gid& sender,
                         const mad::Datagram& datagram, Instant now);
  void hand_over(fabric::PortIndex at, mad::InterfaceKind kind, const mad::MadAddress& source,
                 const mad::MadBytes& mad);
  [[nodiscard]] ManagementPort& find_or_create(fabric::PortIndex own);
  void handle_timeouts(Instant now);
  void collect(Instant now);
  [[nodiscard]] bool collect_from(ManagementPort& port, Instant now);
  void schedule(fabric::PortIndex index, Instant deadline);

  fabric::TablesBuilder& tables_;
  mad::Limits limits_;
  fabric::PlainCounters own_counters_;
  agents::FabricAgents agents_;
  carriage::ManagementNetwork network_;
  carriage::DatagramSink* sink_{};
  SharedPorts shared_;
  OmniPathManager omni_path_;
  OmniPathUsers omni_path_users_;
  bool omni_path_changed_{};
  Instant now_{};  // of the call that is under way
  Ports ports_;
  std::unordered_map<fabric::PortIndex, Instant> deadlines_;
  std::set<std::pair<Instant, fabric::PortIndex>> schedule_;
  std::vector<fabric::PortIndex> runnable_;  // to be polled for MADs
  std::vector<bool> is_runnable_;            // by port
};

}  // namespace weft::node
