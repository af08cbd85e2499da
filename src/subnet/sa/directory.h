#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "subnet/subnet.h"

namespace weft::subnet {

/// Ports with the same P_Keys are of one kind: who shares a partition is asked of kinds, which are
/// few, and not of ports.
using PartitionKind = std::uint32_t;

/// What SA looks up again and again: the ports that have LIDs, their partitions, their GIDs. It
/// follows the subnet by its generation.
class SaDirectory {
 public:
  void refresh(const Subnet& subnet);

  /// Every port with a LID, in order of nodes and ports.
  [[nodiscard]] std::span<const PortId> end_ports() const { return end_ports_; }

  /// By any of the port's GIDs, alias GUIDs too.
  [[nodiscard]] std::optional<PortId> find_gid(const Subnet& subnet, const Gid& gid) const;

  [[nodiscard]] PartitionKind kind_of(const Subnet& subnet, PortId port) const;

  /// The key that a packet from a port of kind `source` to one of `destination` may carry, as the
  /// source's table has it (IBTA vol 1 §10.9.3); if `wanted` is given, of that partition only.
  [[nodiscard]] std::optional<PKey> shared_key(PartitionKind source, PartitionKind destination,
                                               std::optional<PKey> wanted = {}) const;

  /// A port of that kind is in the partition.
  [[nodiscard]] bool has_key(PartitionKind kind, PKey key) const;

 private:
  [[nodiscard]] PartitionKind kind_of_keys(const std::vector<PKey>& table);

  std::uint64_t generation_{};
  const SubnetNode* nodes_{};
  std::size_t node_count_{};
  std::vector<PortId> end_ports_;
  std::vector<std::size_t> first_port_;  // by node: where its ports begin in kinds_
  std::vector<PartitionKind> kinds_;     // by port
  std::vector<std::vector<PKey>> keys_;  // by kind, without zeros
  std::map<std::vector<std::uint16_t>, PartitionKind> kind_of_keys_;
  std::unordered_map<Guid, PortId> alias_guids_;
};

}  // namespace weft::subnet
