#pragma once

// The management agents of a fabric's nodes, as data: the SMA of every HCA and switch (IBTA vol 1
// §14.2.5), its PMA (agents/pma.h), and the training of links. States, LIDs and forwarding entries
// live in the fabric's tables, which it reads and writes; everything else that a port keeps is in
// port_agent.h. Pure; single-threaded.

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

/// Counts of management requests since creation.
struct AgentCounters {
  std::uint64_t answered{};
  std::uint64_t refused{};    // answered with an error status
  std::uint64_t bad_mkeys{};  // dropped for a wrong M_Key, unanswered
};

/// Administrative settings of a port. Members that are zero leave the setting unchanged.
struct PortSettings {
  wire::LinkState state{};          // NoChange, Down, Armed or Active
  wire::PhysicalState physical{};   // NoChange, Sleep, Polling or Disabled
  std::uint8_t width_enabled{};     // bits as in PortInfo; 0: unchanged
  std::uint8_t speed_enabled{};     // likewise
  std::uint8_t extended_enabled{};  // likewise; 0x1E: none
  bool operator==(const PortSettings&) const = default;
};

/// All agents of one fabric: takes MADs that arrive at nodes, and answers them in place.
/// Single-threaded.
class FabricAgents final : public carriage::NodeAgents {
 public:
  /// Power-on state: every cabled link is trained and its ports are in Initialize, port 0 of each
  /// switch is Active, and no port has a LID. `tables` and `counters` must outlive this object.
  FabricAgents(fabric::TablesBuilder& tables, fabric::CounterSource& counters,
               TimeScale scale = {});

  /// Handles a MAD that arrived at QP0 or QP1 of a port.
  [[nodiscard]] Outcome handle(fabric::PortIndex at, mad::InterfaceKind kind, mad::MadBytes& mad,
                               Instant now) override;
  [[nodiscard]] carriage::SmiStep next_step(carriage::DirectedSmp& smp) const override;
  /// Handles an SMP that arrived at `at`: a port of an HCA, or the port through which it entered a
  /// switch.
  [[nodiscard]] Outcome handle_smp(fabric::PortIndex at, mad::MadBytes& mad, Instant now);

  /// The port at which the node's SMA is addressed: the port itself, or port 0 of its switch.
  [[nodiscard]] fabric::PortIndex management_port(fabric::PortIndex port) const;
  /// Port `number` of a switch, kNoPort if it has no such port.
  [[nodiscard]] fabric::PortIndex port_of_switch(fabric::NodeIndex node, PortNumber number) const;

  /// PortInfo including the M_Key, for the owner of the fabric.
  [[nodiscard]] wire::PortInfo port_info(fabric::PortIndex port) const;
  [[nodiscard]] wire::NodeInfo node_info(fabric::PortIndex at) const;
  [[nodiscard]] wire::NodeDescription node_description(fabric::PortIndex port) const;
  [[nodiscard]] wire::SwitchInfo switch_info(fabric::NodeIndex node) const;
  /// The agents' own state of a port.
  [[nodiscard]] const PortAgent& port_agent(fabric::PortIndex port) const {
    return ports_.at(port.value());
  }

  // --- hardware events, as opposed to management
  /// Nodes were added to the tables: powers them on and trains their links.
  void grow(Instant now);
  /// To be called before a node is removed from the tables: takes its links down; it sends no more
  /// traps.
  void power_off(fabric::NodeIndex node, Instant now);
  /// Pulls or plugs the cable of `port`, at both ends.
  void set_plugged(fabric::PortIndex port, bool is_plugged, Instant now);
  /// Configures a port with the checks of Set(PortInfo), and refuses with a reason.
  [[nodiscard]] Result<void> configure(fabric::PortIndex port, const PortSettings& settings,
                                       Instant now);
  /// A subnet manager starts or stops running at the port. Raises trap 144.
  void set_is_sm(fabric::PortIndex port, bool is_sm, Instant now);
  /// An agent of device management begins or ends to answer at the port. Raises trap 144.
  void set_is_device_management(fabric::PortIndex port, bool answers, Instant now);
  /// Sets and clears bits of a port's CapabilityMask, as the kernel of its host does; raises trap
  /// 144 once if the mask changes.
  void change_capabilities(fabric::PortIndex port, wire::PortCapabilities set,
                           wire::PortCapabilities cleared, Instant now);
  /// What the port asks its subnet manager to initialise: InitType, four bits, which the manager
  /// answers by InitTypeReply.
  void set_init_type(fabric::PortIndex port, std::uint8_t type);
  /// GUIDInfo of an HCA port has room for `entries` from now on, a multiple of 8; raises trap 144
  /// if that is new, so that its subnet manager reads PortInfo again. Few ports need more than at
  /// first, and OpenSM asks for every block of each port.
  void set_guid_cap(fabric::PortIndex port, std::uint8_t entries, Instant now);
  [[nodiscard]] std::uint8_t guid_cap(fabric::PortIndex port) const { return agent(port).guid_cap; }
  /// Q_KeyViolations begins at 0 again.
  void reset_qkey_violations(fabric::PortIndex port);
  /// Sets SystemImageGUID of the port's HCA; a change raises trap 145.
  void set_system_image_guid(fabric::PortIndex port, Guid guid, Instant now);
  /// Sets NodeDescription as the node's administrator would; a change raises trap 144. Refuses text
  /// that is too long.
  [[nodiscard]] Result<void> set_node_description(fabric::PortIndex port, std::string_view text,
                                                  Instant now);
  void report_bad_pkey(fabric::PortIndex port, const BadKey& bad, Instant now) override {
    note_bad_pkeys(port, bad, 1, now);
  }
  void report_bad_qkey(fabric::PortIndex port, const BadKey& bad, Instant now) override {
    note_bad_qkeys(port, bad, 1, now);
  }
  /// Counts `count` packets dropped for a wrong P_Key at an HCA port, `bad` being the last (trap
  /// 257).
  void note_bad_pkeys(fabric::PortIndex port, const BadKey& bad, std::uint32_t count, Instant now);
  /// The same for a wrong Q_Key (trap 258).
  void note_bad_qkeys(fabric::PortIndex port, const BadKey& bad, std::uint32_t count, Instant now);

  [[nodiscard]] Pma& pma() { return pma_; }

  void handle_timeout(Instant now) override { pma_.handle_timeout(now); }
  [[nodiscard]] Instant deadline() const override {
    return std::min(pma_.deadline(), traps_.deadline());
  }

  /// Performs the link changes that Sets requested. They are deferred until the response has been
  /// sent (IBTA vol 1 §14.2.5.6).
  void finish_sets(Instant now) override;
  [[nodiscard]] std::optional<carriage::PendingTrap> poll_trap(Instant now) override {
    return traps_.poll(now);
  }

  [[nodiscard]] TrapSender& traps() { return traps_; }
  [[nodiscard]] const TrapSender& traps() const { return traps_; }
  [[nodiscard]] const AgentCounters& counters() const { return counters_; }
  /// True if the tables were changed since the last call.
  [[nodiscard]] bool take_tables_changed();

 private:
  /// A request while an attribute's handler works on it.
  struct Request {
    fabric::PortIndex at;   // port through which it arrived
    fabric::PortIndex own;  // port of the SMA
    std::uint64_t mkey{};
    std::uint32_t modifier{};
    bool is_set{};
    Instant now{};
    std::span<std::byte, wire::kSmpDataBytes> data;
  };
  /// Reads or writes `data`; returns a status of §13.4.7, 0 for success (R-MI-6).
  using Handler = std::uint16_t (FabricAgents::*)(Request&);
  struct Attribute {
    wire::SmpAttribute id;
    bool is_of_switches;
    Handler get;
    Handler set;  // null: read-only
  };
  static const std::array<Attribute, 13> kAttributes;

  /// A link change of a port, deferred until finish_sets().
  struct LinkChange {
    fabric::PortIndex port;
    wire::PhysicalState physical{};  // NoChange: use the port's LinkDownDefaultState
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
  std::vector<SwitchAgent> switches_;                                // index: node - first_switch_
  std::map<fabric::PortIndex, wire::NodeDescription> descriptions_;  // those set by management
  std::map<fabric::HcaIndex, Guid> system_images_;                   // those set by hosts
  std::vector<LinkChange> link_changes_;
  fabric::CounterSource& port_counters_;
  Pma pma_;
  TrapSender traps_;
  AgentCounters counters_;
  bool tables_changed_{true};
};

}  // namespace weft::agents
