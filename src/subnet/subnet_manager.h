#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "base/time.h"
#include "mad/management_interface.h"
#include "mad/pacer.h"
#include "subnet/routing/graph.h"
#include "subnet/routing/routing.h"
#include "subnet/sm_discovery.h"
#include "subnet/sm_lids.h"
#include "subnet/sm_setup.h"
#include "subnet/sm_states.h"
#include "subnet/smp_client.h"
#include "subnet/subnet.h"
#include "subnet/subnet_control.h"
#include "subnet/subnet_manager_options.h"

namespace weft::subnet {

/// Statistics since construction; counters never decrease.
struct SubnetManagerCounters {
  std::uint64_t sweeps{};            ///< completed heavy sweeps
  std::uint64_t light_sweeps{};      ///< completed light sweeps
  std::uint64_t reads{};             ///< SMPs Get
  std::uint64_t writes{};            ///< SMPs Set
  std::uint64_t traps{};             ///< traps repressed
  std::uint64_t refused_controls{};  ///< SMInfo Sets from a sender without the right to it
  std::uint64_t aborted{};           ///< sweeps aborted because of a link change
  std::uint64_t reroutes{};          ///< sweeps triggered by a trap that completed
  Duration last_reroute{};           ///< from the first of those traps to the last table written
};

/// A subnet manager (IBTA vol 1 §14.4) on QP0 of one port: discovers the subnet, assigns LIDs,
/// computes routes, brings ports to Active, and repeats this on changes with as few writes as
/// possible. It elects master and standby with other SMs by priority and GUID. It knows the subnet
/// through MADs only. Pure: MADs and time go in; MADs and the next deadline come out through its
/// ManagementInterface. Not thread-safe.
class SubnetManager final : public SubnetControl {
 public:
  /// `smi` and `observer` must outlive it; `observer` may be null.
  SubnetManager(mad::ManagementInterface& smi, SubnetManagerOptions options,
                SubnetObserver* observer);
  ~SubnetManager() override;

  /// Fails if another agent of the port is registered for subnet management.
  [[nodiscard]] Result<void> start(Instant now);
  void handle_timeout(Instant now);
  /// When handle_timeout is due. The management interface has deadlines of its own.
  [[nodiscard]] Instant deadline() const;

  /// Triggers a sweep as a trap would. An HCA sends no trap for its own link, so the owner calls
  /// this when the link of the SM's own port changes.
  void request_sweep(Instant now);
  /// Master, and no sweep or update is pending.
  [[nodiscard]] bool is_settled() const;
  [[nodiscard]] const SubnetManagerCounters& counters() const { return counters_; }
  [[nodiscard]] RoutingEngine engine() const { return routing_.engine; }
  /// Why a preferred routing engine was not used or ports have no LID; empty if there is no
  /// problem.
  [[nodiscard]] const std::string& warning() const { return warning_; }
  [[nodiscard]] const Discovery::Problems& problems() const { return problems_; }

  // SubnetControl
  [[nodiscard]] const Subnet& subnet() const override { return subnet_; }
  [[nodiscard]] wire::SmState state() const override { return state_; }
  [[nodiscard]] PortId sm_port() const override { return own_port_; }
  [[nodiscard]] wire::SmInfo sm_info() const override;
  [[nodiscard]] std::span<const OtherManager> other_managers() const override { return others_; }
  [[nodiscard]] std::uint64_t sm_key() const override { return options_.sm_key; }
  [[nodiscard]] std::uint64_t mkey() const override { return options_.mkey; }
  [[nodiscard]] std::optional<PathFacts> path(Lid source, Lid destination) const override;
  [[nodiscard]] std::uint32_t multicast_capacity() const override;
  Result<void> set_multicast_members(Lid mlid, std::span<const MulticastMember> members,
                                     Instant now) override;
  Result<void> set_guids(PortId port, std::vector<Guid> guids, Instant now) override;
  [[nodiscard]] std::vector<Guid> guids_of(PortId port) const override;

 private:
  /// Purpose of the SMPs in flight.
  enum class Work : std::uint8_t {
    Idle,
    Discover,
    QueryManagers,
    Tables,
    Ports,
    Active,
    Update,      // multicast tables and GUIDs between sweeps
    Survey,      // attributes that only SA needs
    LightSweep,  // polls switches, other managers and the local port
  };

  class Responder final : public mad::MadHandler {
   public:
    explicit Responder(SubnetManager& manager) : manager_(manager) {}
    const mad::MadMessage* handle(mad::MadRequest& request) override {
      return manager_.answer(request);
    }

   private:
    SubnetManager& manager_;
  };

  // subnet_manager.cc
  void begin_sweep(Instant now);
  void begin_light_sweep(Instant now);
  void begin_update(Instant now);
  void begin_survey(Instant now);
  void take_survey(const SmpRequest& request, const SmpAnswer& answer);
  void take_light_sweep(const SmpRequest& request, const SmpAnswer& answer);
  void restart_after_trap(Instant now);
  void end_grace_after_trap(Instant now);
  void abort_work(Instant now);
  void drop_work(Instant now);
  void pump(Instant now);
  [[nodiscard]] std::optional<SmpRequest> next_request();
  void send(const SmpRequest& request, Instant now);
  void take(const SmpRequest& request, const SmpAnswer& answer, Instant now);
  void advance(Instant now);
  void finish_discovery(Instant now);
  void finish_light_sweep(Instant now);
  void finish_sweep(Instant now);
  void rest(Instant now);

  // sm_take_over.cc
  void set_up(Instant now);
  void adopt(Subnet found);
  void choose_routing();
  [[nodiscard]] Setup::Known known_tables() const;
  [[nodiscard]] std::set<Guid> ports_in_service() const;
  void report_changes(Instant now);

  // sm_election.cc
  [[nodiscard]] const mad::MadMessage* answer(mad::MadRequest& request);
  [[nodiscard]] const mad::MadMessage* answer_sm_info(mad::MadRequest& request);
  [[nodiscard]] const mad::MadMessage* answer_trap(mad::MadRequest& request);
  [[nodiscard]] bool may_control(SmEvent event, const wire::SmInfo& sender) const;
  void decide(Instant now);
  void apply(SmEvent event, Instant now);
  void acknowledge(Instant now);
  void hand_over(const OtherManager& to, Instant now);
  void control(PortId to, wire::SmInfoControl what, Instant now);
  void take_control_answer(const SmpRequest& request, const SmpAnswer& answer, Instant now);
  void poll_master(Instant now);
  void take_poll(const SmpAnswer& answer, Instant now);
  void record_manager(PortId port, const wire::SmInfo& info);

  mad::ManagementInterface& smi_;
  const SubnetManagerOptions options_;
  SubnetObserver* observer_;
  Responder responder_{*this};
  std::optional<mad::AgentId> directed_;
  std::optional<mad::AgentId> lid_routed_;
  std::optional<SmpClient> client_;    // sweeps
  std::optional<SmpClient> controls_;  // SMInfo outside sweeps

  wire::SmState state_{wire::SmState::Discovering};
  Work work_{Work::Idle};
  bool is_pumping_{};
  bool is_aborted_{};  // current work is aborted: send nothing more for it
  bool sweep_wanted_{};
  bool takes_over_{};  // the first sweep as master
  std::uint32_t act_count_{};

  Subnet subnet_;
  PortId own_port_{};
  Guid own_guid_{};
  std::optional<Discovery> discovery_;
  std::vector<SmpRequest> requests_;  // requests of QueryManagers, Survey and LightSweep
  std::size_t next_request_{};
  RoutingGraph graph_;
  Routing routing_;
  std::optional<Setup> setup_;
  std::set<Guid> in_service_;  // ports reported to the observer
  LidMemory lid_memory_;
  std::set<Guid> changed_nodes_;  // reported by traps
  std::set<Guid> uncertain_;      // nodes whose tables may differ from the model
  std::set<Guid> unconfirmed_;    // nodes whose tables are being written completely
  MulticastGroups groups_;
  std::map<Guid, std::vector<Guid>> guids_to_write_;  // by port GUID
  std::map<Guid, std::vector<Guid>> guids_under_way_;
  bool update_wanted_{};
  bool survey_wanted_{};
  std::string warning_;
  Discovery::Problems problems_;

  std::vector<OtherManager> others_;
  std::optional<OtherManager> master_;  // the master, while this SM is standby
  std::optional<Guid> handing_over_to_;
  Guid handed_over_by_{};
  std::set<Guid> unresponsive_managers_;  // managers that did not accept a handover
  unsigned missed_polls_{};
  unsigned retries_{};

  Instant light_sweep_at_{Instant::never()};
  Instant retry_at_{Instant::never()};
  Instant poll_at_{Instant::never()};
  Instant handover_until_{Instant::never()};
  Instant sweep_began_{};
  // first link-change trap that no sweep has covered yet
  Instant link_changed_at_{Instant::never()};
  Instant no_sweep_before_{};  // limits the share of time spent on sweeps triggered by traps
  Instant grace_until_{Instant::never()};  // deadline for SMPs in flight when the trap arrived
  mad::Pacer prompt_sweeps_;
  SubnetManagerCounters counters_;
};

}  // namespace weft::subnet
