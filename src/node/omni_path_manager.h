#pragma once

// Manages the Omni-Path parts of a fabric: gives ports their LIDs, computes the switches' tables
// and makes links Active. Omni-Path has MADs of its own for that, which nobody here would send but
// this manager, so it works on the tables themselves; an InfiniBand subnet manager sees nothing of
// these parts. Routes are the subnet manager's (subnet/routing). Pure. Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "base/result.h"
#include "fabric/link_address.h"
#include "fabric/tables.h"

namespace weft::node {

class OmniPathManager {
 public:
  /// Policy: beyond 16 bits, so that nobody takes one for a LID of InfiniBand.
  static constexpr fabric::ExtendedLid kFirstLid{0x01'0001};
  /// Policy: groups of a switch.
  static constexpr std::uint32_t kMaxGroups = 4096;

  /// `tables` must outlive it.
  explicit OmniPathManager(fabric::TablesBuilder& tables) : tables_(tables) {}

  /// After changes of the fabric: brings up what can be, and routes around what is down. LIDs stay.
  /// True: the tables changed. Cheap when nothing did.
  bool sweep();

  /// The port receives what is sent to the group, as often as it has joined; the next sweep says so
  /// to the switches.
  [[nodiscard]] Result<void> join(fabric::PortIndex port, fabric::ExtendedLid mlid);
  void leave(fabric::PortIndex port, fabric::ExtendedLid mlid);

  /// What a port of a host says that it can do: the kernel's OPA capability mask 3, in which
  /// "Ethernet on fabric" is bit 13 (R-VN-12). The manager only keeps it, for who asks.
  struct Capabilities {
    std::uint16_t mask{};
    std::uint32_t changes{};  // of this port's; another program that sets the same is two
    bool operator==(const Capabilities&) const = default;
  };
  void set_capabilities(fabric::PortIndex port, std::uint16_t mask);
  [[nodiscard]] Capabilities capabilities(fabric::PortIndex port) const;
  /// Grows whenever a port's LID, state or capabilities may have changed.
  [[nodiscard]] std::uint64_t changes() const {
    return tables_.port_changes() + capability_changes_;
  }

 private:
  struct Graph;

  void find_ports();
  bool assign_lids();
  bool activate();
  [[nodiscard]] bool is_up(fabric::PortIndex port) const;
  [[nodiscard]] Graph make_graph() const;
  void write_routes(const Graph& graph);
  void write_groups(const Graph& graph);

  fabric::TablesBuilder& tables_;
  std::size_t known_ports_{};             // of the fabric, at the last look
  std::vector<fabric::PortIndex> ports_;  // of Omni-Path
  std::uint64_t seen_changes_{};          // of ports
  std::vector<bool> links_up_;            // by position in ports_, when routes were computed
  std::uint32_t next_lid_{kFirstLid.value()};
  std::map<fabric::ExtendedLid, std::map<fabric::PortIndex, std::uint32_t>> groups_;
  bool groups_changed_{};
  std::map<fabric::PortIndex, Capabilities> capabilities_;  // of those that ever had any
  std::uint64_t capability_changes_{};
};

}  // namespace weft::node
