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

/// Class of ports with the same set of P_Keys. Shared partitions are computed for pairs of classes,
/// which are few, instead of pairs of ports.
using PartitionKind = std::uint32_t;

/// Index of what SA looks up often: ports with LIDs, their partitions, their GIDs. Rebuilt when the
/// subnet's generation changes. Not thread-safe.
class SaDirectory {
 public:
  void refresh(const Subnet& subnet);

  /// All ports with a LID, in order of nodes and ports.
  [[nodiscard]] std::span<const PortId> end_ports() const { return end_ports_; }

  /// Finds a port by any of its GIDs, including alias GUIDs.
  [[nodiscard]] std::optional<PortId> find_gid(const Subnet& subnet, const Gid& gid) const;

  [[nodiscard]] PartitionKind kind_of(const Subnet& subnet, PortId port) const;

  /// The P_Key, from the source's table, that packets between ports of the two kinds may carry
  /// (IBTA vol 1 §10.9.3); restricted to the partition of `wanted` if given.
  [[nodiscard]] std::optional<PKey> shared_key(PartitionKind source, PartitionKind destination,
                                               std::optional<PKey> wanted = {}) const;

  /// Ports of this kind are members of the partition.
  [[nodiscard]] bool has_key(PartitionKind kind, PKey key) const;

 private:
  [[nodiscard]] PartitionKind kind_of_keys(const std::vector<PKey>& table);

  std::uint64_t generation_{};
  const SubnetNode* nodes_{};
  std::size_t node_count_{};
  std::vector<PortId> end_ports_;
  std::vector<std::size_t> first_port_;  // by node: index of its first port in kinds_
  std::vector<PartitionKind> kinds_;     // by port
  std::vector<std::vector<PKey>> keys_;  // by kind, without empty entries
  std::map<std::vector<std::uint16_t>, PartitionKind> kind_of_keys_;
  std::unordered_map<Guid, PortId> alias_guids_;
};

}  // namespace weft::subnet
