#pragma once

// What answers for the nodes of a fabric, as data: the SMA of every HCA and switch (IBTA vol 1
// §14.2.5), its PMA (agents/pma.h), and the training of their links. States, LIDs and forwarding
// are in the fabric's tables, which it reads and writes; what else a port keeps is in port_agent.h.
// Pure. One thread.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "agents/pma.h"
#include "agents/port_agent.h"
#include "agents/trap_sender.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "base/time.h"
#include "carriage/node_agents.h"
#include "fabric/counter_source.h"
#include "fabric/tables.h"
#include "mad/agent_table.h"
#include "mad/mad_address.h"
#include "wire/mad/mad.h"
#include "wire/mad/node_info.h"
#include "wire/mad/notice.h"
#include "wire/mad/port_info.h"
#include "wire/mad/smp.h"
#include "wire/mad/switch_info.h"

namespace weft::agents {

using carriage::BadKey;
using carriage::Outcome;

/// What the agents saw; all only grow.
struct AgentCounters {
  std::uint64_t answered{};
  std::uint64_t refused{};    // answered with a status that is not ok
  std::uint64_t bad_mkeys{};  // not answered
};

/// What an administrator changes of a port; what is not named stays.
struct PortSettings {
  wire::LinkState state{};          // NoChange, Down, Armed or Active
  wire::PhysicalState physical{};   // NoChange, Sleep, Polling or Disabled
  std::uint8_t width_enabled{};     // bits as in PortInfo; 0: as it is
  std::uint8_t speed_enabled{};     // likewise
  std::uint8_t extended_enabled{};  // likewise; 0x1E: none
  bool operator==(const PortSettings&) const = default;
};

class FabricAgents final : public carriage::NodeAgents {
 public:
  /// As after power-on: every cabled link is trained and its ports are in Initialize, port 0 of
  /// each switch is Active; nobody has a LID. Both must outlive it.
  FabricAgents(fabric::TablesBuilder& tables, fabric::CounterSource& counters,
               TimeScale scale = {});

  /// Any MAD that arrived at QP0 or QP1 of a port.
  [[nodiscard]] Outcome handle(fabric::PortIndex at, mad::InterfaceKind kind, mad::MadBytes& mad,
                               Instant now) override;
  [[nodiscard]] carriage::SmiStep next_step(carriage::DirectedSmp& smp) const override;
  /// An SMP that arrived at `at`: an HCA's port, or the port of a switch that it came in by.
  [[nodiscard]] Outcome handle_smp(fabric::PortIndex at, mad::MadBytes& mad, Instant now);

  /// Where the SMA of the node is: the port itself, or port 0 of its switch.
  [[nodiscard]] fabric::PortIndex management_port(fabric::PortIndex port) const;
  [[nodiscard]] fabric::PortIndex port_of_switch(fabric::NodeIndex node, PortNumber number) const;

  /// PortInfo as the owner of the fabric sees it: with the M_Key.
  [[nodiscard]] wire::PortInfo port_info(fabric::PortIndex port) const;
  [[nodiscard]] wire::NodeInfo node_info(fabric::PortIndex at) const;
  [[nodiscard]] wire::NodeDescription node_description(fabric::PortIndex port) const;
  [[nodiscard]] wire::SwitchInfo switch_info(fabric::NodeIndex node) const;
  [[nodiscard]] const PortAgent& port_agent(fabric::PortIndex port) const {
    return ports_.at(port.value());
  }

  // --- what happens to the hardware, besides management
  /// Nodes were added to the tables: they are powered on, and their links train.
  void grow(Instant now);
  /// Before a node is removed from the tables: its links go down, it says nothing more.
  void power_off(fabric::NodeIndex node, Instant now);
  /// Pulls the cable of `port` or puts it back (both ends).
  void set_plugged(fabric::PortIndex port, bool is_plugged, Instant now);
  /// Sets a port as a Set(PortInfo) would, with the same checks, said in words.
  [[nodiscard]] Result<void> configure(fabric::PortIndex port, const PortSettings& settings,
                                       Instant now);
  /// A subnet manager runs at the port, or none; tells the subnet manager (trap 144).
  void set_is_sm(fabric::PortIndex port, bool is_sm, Instant now);
  [[nodiscard]] Result<void> set_node_description(fabric::PortIndex port, std::string_view text,
                                                  Instant now);
  void report_bad_pkey(fabric::PortIndex port, const BadKey& bad, Instant now) override {
    note_bad_pkeys(port, bad, 1, now);
  }
  void report_bad_qkey(fabric::PortIndex port, const BadKey& bad, Instant now) override {
    note_bad_qkeys(port, bad, 1, now);
  }
  /// So many packets, of which `bad` was the last, were dropped at an HCA's port.
  void note_bad_pkeys(fabric::PortIndex port, const BadKey& bad, std::uint32_t count, Instant now);
  void note_bad_qkeys(fabric::PortIndex port, const BadKey& bad, std::uint32_t count, Instant now);

  [[nodiscard]] Pma& pma() { return pma_; }

  void handle_timeout(Instant now) override { pma_.handle_timeout(now); }
  [[nodiscard]] Instant deadline() const override {
    return std::min(pma_.deadline(), traps_.deadline());
  }

  /// Changes of links that a Set asked for: they wait until its answer has left (§14.2.5.6).
  void finish_sets(Instant now) override;
  [[nodiscard]] std::optional<carriage::PendingTrap> poll_trap(Instant now) override {
    return traps_.poll(now);
  }

  [[nodiscard]] TrapSender& traps() { return traps_; }
  [[nodiscard]] const TrapSender& traps() const { return traps_; }
  [[nodiscard]] const AgentCounters& counters() const { return counters_; }
  /// Whether the tables changed since the last time.
  [[nodiscard]] bool take_tables_changed();

 private:
  /// A request in an attribute's hands.
  struct Request {
    fabric::PortIndex at;   // the port that it came in by
    fabric::PortIndex own;  // that of the SMA
    std::uint64_t mkey{};
    std::uint32_t modifier{};
    bool is_set{};
    Instant now{};
    std::span<std::byte, wire::kSmpDataBytes> data;
  };
  /// Reads or writes `data`; a status of §13.4.7, 0 when all is well (R-MI-6).
  using Handler = std::uint16_t (FabricAgents::*)(Request&);
  struct Attribute {
    wire::SmpAttribute id;
    bool is_of_switches;
    Handler get;
    Handler set;  // none: it cannot be written
  };
  static const std::array<Attribute, 13> kAttributes;

  /// A change of a port's link that waits for finish_sets().
  struct LinkChange {
    fabric::PortIndex port;
    wire::PhysicalState physical{};  // NoChange: its LinkDownDefaultState
  };

  PortAgent& agent(fabric::PortIndex port) { return ports_[port.value()]; }
  [[nodiscard]] const PortAgent& agent(fabric::PortIndex port) const {
    return ports_[port.value()];
  }
  [[nodiscard]] SwitchAgent& switch_agent(fabric::NodeIndex node) {
    return switches_[node.value() - first_switch_];
  }
  [[nodiscard]] const SwitchAgent& switch_agent(fabric::NodeIndex node) const {
    return switches_[node.value() - first_switch_];
  }

  // sma.cc
  [[nodiscard]] bool admits(const Request& request, const mad::MadBytes& mad,
                            const wire::MadHeader& header);
  void report_bad_mkey(const Request& request, const mad::MadBytes& mad,
                       const wire::MadHeader& header);
  [[nodiscard]] std::uint16_t serve(Request& request, const wire::MadHeader& header);
  void tell_bad_key(fabric::PortIndex port, wire::Trap trap, const BadKey& bad, Instant now);
  void raise(fabric::PortIndex port, wire::NoticeType type, wire::Trap trap,
             std::span<const std::byte, wire::kNoticeDetailsBytes> details, Instant now);

  // sma_node.cc
  [[nodiscard]] std::uint16_t get_node_info(Request& request);
  [[nodiscard]] std::uint16_t get_node_description(Request& request);
  [[nodiscard]] std::uint16_t set_node_description_attribute(Request& request);
  [[nodiscard]] std::uint16_t get_switch_info(Request& request);
  [[nodiscard]] std::uint16_t set_switch_info(Request& request);
  [[nodiscard]] std::uint16_t get_led_info(Request& request);
  [[nodiscard]] std::uint16_t set_led_info(Request& request);
  [[nodiscard]] std::uint16_t get_vendor_diag(Request& request);
  void report_local_change(fabric::PortIndex port, bool node_description_changed, Instant now);

  // sma_port_info.cc
  [[nodiscard]] std::optional<fabric::PortIndex> port_named(const Request& request,
                                                            std::uint32_t number) const;
  [[nodiscard]] std::uint16_t get_port_info(Request& request);
  [[nodiscard]] std::uint16_t set_port_info(Request& request);
  [[nodiscard]] std::uint16_t get_port_info_extended(Request& request);
  void write_management_part(fabric::PortIndex port, const wire::PortInfo& wanted);
  void write_link_part(fabric::PortIndex port, const wire::PortInfo& wanted);

  // sma_tables.cc
  [[nodiscard]] std::uint16_t get_pkey_table(Request& request);
  [[nodiscard]] std::uint16_t set_pkey_table(Request& request);
  [[nodiscard]] std::uint16_t get_guid_info(Request& request);
  [[nodiscard]] std::uint16_t set_guid_info(Request& request);
  [[nodiscard]] std::uint16_t get_sl_to_vl(Request& request);
  [[nodiscard]] std::uint16_t set_sl_to_vl(Request& request);
  [[nodiscard]] std::uint16_t get_vl_arbitration(Request& request);
  [[nodiscard]] std::uint16_t set_vl_arbitration(Request& request);
  [[nodiscard]] std::uint16_t get_linear_forwarding(Request& request);
  [[nodiscard]] std::uint16_t set_linear_forwarding(Request& request);
  [[nodiscard]] std::uint16_t get_multicast_forwarding(Request& request);
  [[nodiscard]] std::uint16_t set_multicast_forwarding(Request& request);
  [[nodiscard]] QosTables& qos_of(fabric::PortIndex port);

  // link_training.cc
  void set_up_port(std::uint32_t index);
  void set_cable(std::uint32_t index);
  void power_on();
  void take_down(fabric::PortIndex port, Instant now);
  void train(fabric::PortIndex port, Instant now);
  void report_link_change(fabric::PortIndex port, Instant now);

  fabric::TablesBuilder& tables_;
  TimeScale scale_;
  std::uint32_t first_switch_{};
  std::vector<PortAgent> ports_;
  std::vector<SwitchAgent> switches_;  // by node, from first_switch_ on
  std::map<fabric::PortIndex, wire::NodeDescription> descriptions_;  // that were written
  std::vector<LinkChange> link_changes_;
  fabric::CounterSource& port_counters_;
  Pma pma_;
  TrapSender traps_;
  AgentCounters counters_;
  bool tables_changed_{true};
};

}  // namespace weft::agents
