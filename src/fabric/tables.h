#pragma once

// The running fabric: one immutable, position-independent image per routing generation
// (docs/ARCHITECTURE.md, decision 1). The daemon builds it in sealed memory, and every process maps
// it read-only; it contains indices and offsets, never addresses. PortIndex, NodeIndex and HcaIndex
// of an object are the same in all generations of one fabric.
//
// Threads: a TablesView is a value over immutable bytes and may be used by any thread. A
// TablesBuilder is single-threaded.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/flags.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/fault_description.h"
#include "fabric/topology.h"
#include "verbs/mtu.h"
#include "verbs/port_attributes.h"
#include "verbs/port_state.h"

namespace weft::fabric {

using PortIndex = Ordered<struct PortIndexTag, std::uint32_t>;
using NodeIndex = Ordered<struct NodeIndexTag, std::uint32_t>;
using HcaIndex = Ordered<struct HcaIndexTag, std::uint32_t>;

inline constexpr std::uint32_t kNoIndex = 0xFFFF'FFFF;
inline constexpr PortIndex kNoPort{kNoIndex};
inline constexpr NodeIndex kNoNode{kNoIndex};
inline constexpr HcaIndex kNoHca{kNoIndex};

/// Forwarding table entry that drops the packet (IBTA vol 1 §14.2.5.11).
inline constexpr PortNumber kNoRoute{0xFF};

/// MLID of the default partition's IPoIB broadcast group, of which every HCA port is a member.
inline constexpr Lid kBroadcastMlid{0xC000};

using verbs::PortState;

/// Boolean properties of a port.
enum class PortFlag : std::uint8_t {
  Tapped = 1,   // a capture is active: packets that cross the port are shown to it
  Trusted = 2,  // of a virtual function's port: its QPs may have the well-known Q_Key
};

/// One port. `state` is the port's own; a link carries data if both its ports allow it. `link_type`
/// is that of the port's HCA or switch, cabled or not, and says what `lid` is: an Omni-Path port
/// has a LID of 24 bits there, of a space of its own, and no LMC. Width and speed are encoded as in
/// PortInfo (width: 1 1x, 2 4x, 4 8x, 8 12x; speed: 1 2.5, 2 5, 4 10 Gb/s per lane).
struct PortRecord {
  Guid guid;
  std::int64_t delay_ns{};  // of the cable, one way
  NodeIndex node;
  HcaIndex hca{kNoHca};  // kNoHca for a switch port
  PortIndex peer{kNoPort};
  Lid lid;
  std::uint32_t rate_mbps{};  // 0: no limit
  std::uint32_t first_gid{};
  std::uint32_t first_pkey{};
  std::uint16_t gid_count{};
  std::uint16_t pkey_count{};
  PortNumber number;
  std::uint8_t lmc{};
  PortState state{PortState::Down};
  verbs::Mtu max_mtu{verbs::Mtu::Mtu4096};  // MTUCap
  verbs::Mtu active_mtu{verbs::Mtu::Mtu4096};
  LinkType link_type{LinkType::InfiniBand};
  std::uint8_t active_width{};
  std::uint8_t active_speed{};
  std::uint8_t active_speed_extended{};  // LinkSpeedExtActive: 1 FDR, 2 EDR, 4 HDR, 8 NDR
  Flags<PortFlag> flags;
  ServiceLevel sm_sl;              // PortInfo MasterSMSL
  std::uint8_t reregistrations{};  // number of ClientReregister requests, modulo 256
  Lid sm_lid;                      // PortInfo MasterSMLID

  [[nodiscard]] bool is_switch_port() const { return hca == kNoHca; }
  [[nodiscard]] bool is_tapped() const { return flags.has(PortFlag::Tapped); }
  [[nodiscard]] bool is_trusted() const { return flags.has(PortFlag::Trusted); }
  [[nodiscard]] Duration delay() const { return Duration::nanoseconds(delay_ns); }
  [[nodiscard]] bool is_omni_path() const { return link_type == LinkType::OmniPath; }
  /// Of an Omni-Path port; else 0.
  [[nodiscard]] ExtendedLid extended_lid() const {
    return is_omni_path() ? ExtendedLid{lid.value()} : ExtendedLid{};
  }
  /// True if `destination` is the port's LID with any path bits.
  [[nodiscard]] bool owns(Lid destination) const {
    return lid != Lid{} && !is_omni_path() && destination >= lid &&
           destination.value() - lid.value() < 1U << lmc;
  }
  [[nodiscard]] bool owns(ExtendedLid destination) const {
    return destination != ExtendedLid{} && destination == extended_lid();
  }
};

/// A host or a switch. A host's ports are those of its HCAs, in order; a switch's ports are 0 ..
/// port_count-1, so `first_port` is its management port. The tables of an Omni-Path switch are by
/// extended LIDs, of which the unicast ones begin at `forwarding_first`, so that they need no more
/// room where LIDs have more bits.
struct NodeRecord {
  Guid guid;  // NodeInfo NodeGUID of a switch; system image GUID of a host
  std::uint64_t forwarding_offset{};
  std::uint64_t multicast_offset{};
  std::uint32_t forwarding_count{};  // LinearFDBTop + 1, or 0
  std::uint32_t multicast_count{};   // MLIDs 0xC000 .. 0xC000 + multicast_count - 1, or 0xF00000 ..
  std::uint32_t name_offset{};
  std::uint32_t name_bytes{};
  PortIndex first_port;
  std::uint32_t port_count{};
  HcaIndex first_hca;
  std::uint32_t hca_count{};
  NodeKind kind{NodeKind::Host};
  std::uint8_t
      removed{};  // not 0: no cables, no LIDs; the entry remains so that indices stay valid
  std::array<std::uint8_t, 2> reserved{};
  std::uint32_t forwarding_first{};  // 0 of an InfiniBand switch

  /// Bytes of one multicast port mask, in which bit n is port n.
  [[nodiscard]] std::uint32_t mask_bytes() const { return (port_count + 7) / 8; }
  [[nodiscard]] bool is_removed() const { return removed != 0; }
};

/// An HCA, a node of the subnet in the sense of the specification.
struct HcaRecord {
  Guid guid;               // NodeInfo NodeGUID
  Guid system_image_guid;  // equal for all HCAs of a host
  NodeIndex node;
  std::uint32_t name_offset{};
  std::uint32_t name_bytes{};
  PortIndex first_port;  // port 1
  std::uint32_t port_count{};
  std::uint32_t reserved{};
};

/// A fault rule on one direction of a link, or on all links (fabric/faults.h).
struct FaultRecord {
  static constexpr Qpn kAnyQpn{0xFFFF'FFFF};

  std::array<std::uint64_t, 4> opcodes{};  // bit n: opcode n matches
  std::uint64_t seed{};
  std::uint64_t after{};
  std::uint64_t every{1};
  std::uint64_t count{};  // 0: no limit
  std::int64_t hold_ns{};
  PortIndex egress{kNoPort};  // the sending port; kNoPort: every link
  std::uint32_t slot{};       // of the rule's counts, shared by its records
  std::uint32_t parts_per_million{FaultDescription::kAlways};
  Lid slid;  // 0: any
  Lid dlid;  // 0: any
  Qpn dest_qp{kAnyQpn};
  std::uint32_t first_psn{};
  std::uint32_t psn_count{};  // 0: any PSN
  FaultKind kind{FaultKind::Drop};
  std::array<std::uint8_t, 7> reserved{};

  [[nodiscard]] Duration hold() const { return Duration::nanoseconds(hold_ns); }
  bool operator==(const FaultRecord&) const = default;
};

/// Policy: process slots that are lent at a time.
inline constexpr std::uint32_t kSlotsPerLoan = 4;

/// Process slots of a host, kSlotsPerLoan from `first_slot` on, that a virtual function of one of
/// its ports has borrowed (fabric/virtual_ports.h).
struct SlotLoanRecord {
  NodeIndex lender;
  std::uint32_t first_slot{};
  PortIndex borrower{kNoPort};
  bool operator==(const SlotLoanRecord&) const = default;
};

/// The service levels that an HCA port maps to VL15, bit n for level n. VL15 is for SMPs alone, so
/// the port discards whatever else is to leave it on such a level (IBTA vol 1 §14.2.5.8).
struct ManagementLevelsRecord {
  PortIndex port{kNoPort};
  std::uint32_t levels{};
  bool operator==(const ManagementLevelsRecord&) const = default;
};

/// Policy: most rules of a fabric, and most records of all its rules.
inline constexpr std::uint32_t kMaxFaultRules = 256;
inline constexpr std::size_t kMaxFaultRecords = 16'384;

/// A validated view of an image; `bytes` must outlive it and not change (sealed memory).
class TablesView {
 public:
  /// Validates every offset, index and enumerator once, so that no accessor below can leave the
  /// image. `bytes` must be aligned to 8, as mappings and vectors are.
  [[nodiscard]] static Result<TablesView> open(ByteSpan bytes);

  [[nodiscard]] std::uint64_t generation() const { return generation_; }
  [[nodiscard]] std::uint64_t subnet_prefix() const { return subnet_prefix_; }

  [[nodiscard]] std::span<const NodeRecord> nodes() const { return nodes_; }
  [[nodiscard]] std::span<const HcaRecord> hcas() const { return hcas_; }
  [[nodiscard]] std::span<const PortRecord> ports() const { return ports_; }
  [[nodiscard]] std::span<const FaultRecord> faults() const { return faults_; }
  /// By lender and slot.
  [[nodiscard]] std::span<const SlotLoanRecord> slot_loans() const { return slot_loans_; }

  /// `index` must be valid (asserted). Indices in records, like `peer`, are valid unless they have
  /// the kNo... value.
  [[nodiscard]] const NodeRecord& node(NodeIndex index) const;
  [[nodiscard]] const HcaRecord& hca(HcaIndex index) const;
  [[nodiscard]] const PortRecord& port(PortIndex index) const;

  [[nodiscard]] std::string_view name(const NodeRecord& node) const;
  [[nodiscard]] std::string_view name(const HcaRecord& hca) const;
  /// The GID table of a port, the default GID first.
  [[nodiscard]] std::span<const Gid> gids(const PortRecord& port) const;
  /// The P_Key table of a port.
  [[nodiscard]] std::span<const PKey> pkeys(const PortRecord& port) const;
  [[nodiscard]] std::span<const HcaRecord> hcas_of(const NodeRecord& node) const;
  [[nodiscard]] std::span<const PortRecord> ports_of(const NodeRecord& node) const;
  [[nodiscard]] std::span<const PortRecord> ports_of(const HcaRecord& hca) const;

  [[nodiscard]] std::optional<NodeIndex> find_node(std::string_view name) const;
  /// Port `number` of a switch, or of HCA `hca` of a host, counted from 0.
  [[nodiscard]] std::optional<PortIndex> find_port(NodeIndex node, PortNumber number,
                                                   std::uint32_t hca = 0) const;
  /// The InfiniBand port that owns `lid`, or kNoPort. Global knowledge, not a route.
  [[nodiscard]] PortIndex owner_of(Lid lid) const;
  /// The port whose GID table contains `gid`, or kNoPort. Binary search.
  [[nodiscard]] PortIndex owner_of(const Gid& gid) const;
  /// The port of the virtual function that has borrowed a process slot of a host; kNoPort if the
  /// host has it. Binary search.
  [[nodiscard]] PortIndex borrower_of(NodeIndex lender, std::uint32_t slot) const;
  /// Whether the port maps the service level to VL15.
  [[nodiscard]] bool is_management_level(PortIndex port, ServiceLevel sl) const;

  /// An entry of a switch's linear forwarding table; kNoRoute above LinearFDBTop.
  [[nodiscard]] PortNumber forward(const NodeRecord& node, Lid dlid) const;
  [[nodiscard]] PortNumber forward(NodeIndex switch_node, Lid dlid) const {
    return forward(node(switch_node), dlid);
  }
  [[nodiscard]] PortNumber forward(NodeIndex switch_node, ExtendedLid dlid) const;
  /// True if the switch forwards `mlid` to `port`.
  [[nodiscard]] bool forwards_multicast(const NodeRecord& node, Lid mlid, PortNumber port) const;
  [[nodiscard]] bool forwards_multicast(NodeIndex switch_node, Lid mlid, PortNumber port) const {
    return forwards_multicast(node(switch_node), mlid, port);
  }
  [[nodiscard]] bool forwards_multicast(NodeIndex switch_node, ExtendedLid mlid,
                                        PortNumber port) const;

 private:
  TablesView() = default;
  friend class TablesValidator;
  [[nodiscard]] PortNumber entry(const NodeRecord& node, std::uint32_t position) const;
  [[nodiscard]] bool is_in_mask(const NodeRecord& node, std::uint32_t position,
                                PortNumber port) const;

  std::uint64_t generation_{};
  std::uint64_t subnet_prefix_{};
  std::span<const NodeRecord> nodes_;
  std::span<const HcaRecord> hcas_;
  std::span<const PortRecord> ports_;
  std::span<const Gid> gids_;
  std::span<const PortIndex> gid_owners_;     // owner of each GID
  std::span<const std::uint32_t> gid_order_;  // indices into gids_, sorted by GID
  std::span<const PKey> pkeys_;
  std::span<const PortIndex> lid_owners_;
  std::span<const char> names_;
  std::span<const std::uint8_t> forwarding_;
  std::span<const std::uint8_t> multicast_;
  std::span<const FaultRecord> faults_;
  std::span<const SlotLoanRecord> slot_loans_;
  std::span<const ManagementLevelsRecord> management_levels_;
};

/// LIDs per block of a linear forwarding table (IBTA vol 1 §14.2.5.10).
inline constexpr std::size_t kForwardingBlock = 64;

/// Result of link training, in PortInfo's encodings.
struct LinkSpeed {
  std::uint32_t rate_mbps{};  // 0: no limit
  std::uint8_t width{};
  std::uint8_t speed{};
  std::uint8_t extended{};
  bool operator==(const LinkSpeed&) const = default;
};

/// The mutable form of the tables, which the owner of the fabric changes between generations:
/// states, LIDs, forwarding, captures, faults. Single-threaded.
class TablesBuilder {
 public:
  /// `topology` must be valid (fabric::validate). All ports start Down, without LIDs and routes.
  explicit TablesBuilder(const Topology& topology);

  /// Adds nodes: `topology` has more hosts and switches than before, appended to each list. They
  /// come after all existing nodes, so that indices stay valid. `links` are new, between free
  /// ports.
  void grow(const Topology& topology, std::span<const LinkDescription> links);
  /// Removes the node's cables, LIDs and routes; its index is not reused.
  void remove_node(NodeIndex node);
  /// Ignores removed nodes.
  [[nodiscard]] std::optional<NodeIndex> find_node(std::string_view name) const;

  [[nodiscard]] std::span<const NodeRecord> nodes() const { return nodes_; }
  [[nodiscard]] std::span<const HcaRecord> hcas() const { return hcas_; }
  [[nodiscard]] std::span<const PortRecord> ports() const { return ports_; }
  [[nodiscard]] const PortRecord& port(PortIndex index) const { return ports_.at(index.value()); }
  [[nodiscard]] const NodeRecord& node(NodeIndex index) const { return nodes_.at(index.value()); }
  [[nodiscard]] PortIndex port_of(const EndPoint& end_point) const;
  [[nodiscard]] std::span<const PKey> pkeys(PortIndex port) const;
  [[nodiscard]] std::span<const Gid> gids(PortIndex port) const;
  [[nodiscard]] std::string_view name(const NodeRecord& node) const;
  [[nodiscard]] std::string_view name(const HcaRecord& hca) const;

  /// Sets the state of one port; see set_link_state() for a link.
  void set_state(PortIndex port, PortState state);
  /// Sets both ends of a cable; a port without a cable stays Down.
  void set_link_state(PortIndex port, PortState state);
  /// `lid` must be a multiple of 2^lmc.
  void set_lid(PortIndex port, Lid lid, std::uint8_t lmc);
  /// Of an Omni-Path port.
  void set_lid(PortIndex port, ExtendedLid lid);
  /// Sets LID and SL of the port's master subnet manager.
  void set_subnet_manager(PortIndex port, Lid lid, ServiceLevel sl);
  /// The subnet manager requests that the port's clients register again (IBTA vol 1 §14.4.11).
  void request_reregistration(PortIndex port);
  void set_active_mtu(PortIndex port, verbs::Mtu mtu);
  void set_tapped(PortIndex port, bool tapped);
  void set_trusted(PortIndex port, bool trusted);
  void set_pkeys(PortIndex port, std::span<const PKey> pkeys);
  void set_gids(PortIndex port, std::span<const Gid> gids);
  /// Another GUID of a port, or of an HCA (NodeInfo NodeGUID); its GID table is not touched.
  void set_port_guid(PortIndex port, Guid guid);
  void set_node_guid(HcaIndex hca, Guid guid);
  /// Sets rate (0: no limit) and one-way delay of the link, at both ports.
  void set_link(PortIndex port, std::uint32_t rate_mbps, Duration delay);
  /// Sets the result of link training at both ports; the delay is unchanged.
  void set_link_speed(PortIndex port, const LinkSpeed& speed);

  /// kNoRoute removes the entry. `switch_node` must be a switch and `port` one of its ports.
  void set_forwarding(NodeIndex switch_node, Lid lid, PortNumber port);
  /// The same of an Omni-Path switch.
  void set_forwarding(NodeIndex switch_node, ExtendedLid lid, PortNumber port);
  /// Removes all entries of the switch.
  void clear_forwarding(NodeIndex switch_node);
  /// Adds `port` to, or removes it from, the forwarding mask of `mlid`.
  void set_multicast(NodeIndex switch_node, Lid mlid, PortNumber port, bool forward);
  void set_multicast(NodeIndex switch_node, ExtendedLid mlid, PortNumber port, bool forward);
  void clear_multicast(NodeIndex switch_node, Lid mlid);
  /// Removes all groups of the switch.
  void clear_multicast(NodeIndex switch_node);

  /// Programming by subnet management (tables_blocks.cc). Entries above the top are kept but not
  /// used (SwitchInfo LinearFDBTop); initially there is no top.
  void set_forwarding_top(NodeIndex switch_node, Lid top);
  /// The egress port for a packet, subject to the top.
  [[nodiscard]] PortNumber forward(NodeIndex switch_node, Lid dlid) const;
  [[nodiscard]] PortNumber forward(NodeIndex switch_node, ExtendedLid dlid) const;
  [[nodiscard]] bool forwards_multicast(NodeIndex switch_node, Lid mlid, PortNumber port) const;
  [[nodiscard]] bool forwards_multicast(NodeIndex switch_node, ExtendedLid mlid,
                                        PortNumber port) const;
  /// Sets the 64 LIDs from 64 times `block` on. Ports that the switch lacks become kNoRoute, as do
  /// LIDs that are not unicast. True if something changed.
  bool set_forwarding_block(NodeIndex switch_node, std::uint32_t block,
                            std::span<const std::byte, kForwardingBlock> ports);
  /// Reads a block in the form of set_forwarding_block().
  void get_forwarding_block(NodeIndex switch_node, std::uint32_t block,
                            std::span<std::byte, kForwardingBlock> ports) const;
  /// Bit n is port 16 times `position` + n; bits of ports that the switch lacks are ignored.
  bool set_multicast_mask(NodeIndex switch_node, Lid mlid, std::uint32_t position,
                          std::uint16_t mask);
  /// Reads a mask in the form of set_multicast_mask().
  [[nodiscard]] std::uint16_t multicast_mask(NodeIndex switch_node, Lid mlid,
                                             std::uint32_t position) const;

  /// Replaces all fault rules: at most kMaxFaultRecords, none of kind Down.
  void set_faults(std::vector<FaultRecord> faults);
  [[nodiscard]] std::span<const FaultRecord> faults() const { return faults_; }
  /// A virtual function borrows kSlotsPerLoan process slots of its port's host, which nobody has.
  void lend_slots(const SlotLoanRecord& loan);
  /// They are the host's again.
  void take_back_slots(NodeIndex lender, std::uint32_t first_slot);
  [[nodiscard]] std::span<const SlotLoanRecord> slot_loans() const { return slot_loans_; }
  /// The service levels that the port maps to VL15; as a rule none.
  void set_management_levels(PortIndex port, std::uint16_t levels);
  /// Increases with each change of a port.
  [[nodiscard]] std::uint64_t port_changes() const { return port_changes_; }
  /// Increases with each change of the fault rules.
  [[nodiscard]] std::uint64_t fault_changes() const { return fault_changes_; }

  /// The image of the current state; equal states give equal bytes.
  [[nodiscard]] std::vector<std::byte> build(std::uint64_t generation) const;

 private:
  void add_host(const Topology& topology, std::uint32_t position);
  void add_switch(const Topology& topology, std::uint32_t position);
  void add_link(const LinkDescription& link);
  void set_group_port(NodeIndex switch_node, std::uint32_t group, PortNumber port, bool forward);
  std::uint32_t add_name(std::string_view name);
  PortRecord& mutable_port(PortIndex index) {
    ++port_changes_;
    return ports_.at(index.value());
  }
  void set_flag(PortIndex port, PortFlag flag, bool value);

  std::uint64_t subnet_prefix_;
  std::vector<NodeIndex> hosts_;     // by position in the topology
  std::vector<NodeIndex> switches_;  // likewise
  std::vector<NodeRecord> nodes_;
  std::vector<HcaRecord> hcas_;
  std::vector<PortRecord> ports_;
  std::vector<char> names_;
  std::vector<std::vector<PKey>> pkeys_;               // by port; empty for switch ports except 0
  std::vector<std::vector<Gid>> gids_;                 // by port; the default GID first
  std::vector<std::vector<std::uint8_t>> forwarding_;  // by node
  std::vector<std::uint32_t> forwarding_top_;          // by node
  std::vector<std::vector<std::uint8_t>> multicast_;   // by node
  std::vector<FaultRecord> faults_;
  std::vector<SlotLoanRecord> slot_loans_;                 // by lender and slot
  std::vector<ManagementLevelsRecord> management_levels_;  // by port, of those that have some
  std::uint64_t fault_changes_{};
  std::uint64_t port_changes_{};
};

/// The text of `weft status`: nodes, ports, states, LIDs and cables.
[[nodiscard]] std::string show(const TablesView& view);

/// Text like `h1:1`, `h1/weft1:2`, `s1:36`.
[[nodiscard]] std::string port_name(const TablesView& view, PortIndex port);

/// A port's LID as people read it.
[[nodiscard]] std::string lid_text(const PortRecord& port);

/// A port as the users of verbs see it; `gids` and `pkeys` are its tables. An Omni-Path port is
/// Down for them, whatever it carries: no QP of theirs can send on it.
[[nodiscard]] verbs::PortAttributes attributes_of(const PortRecord& port, std::span<const Gid> gids,
                                                  std::span<const PKey> pkeys);

}  // namespace weft::fabric
