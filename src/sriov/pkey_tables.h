#pragma once

// P_Key tables of functions: each entry names one of the port's table. The physical function sees
// the port's table itself. One thread at a time.

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/keys.h"
#include "base/result.h"
#include "sriov/types.h"

namespace weft::sriov {

class PKeyTables {
 public:
  /// The port's table; as the subnet manager writes it, indexes mean other P_Keys.
  void set_physical(std::vector<PKey> table) { physical_ = std::move(table); }
  /// `physical[i]` is the port's index that the function knows as i. InvalidArgument: an index
  /// that the port does not have.
  [[nodiscard]] Result<void> assign(FunctionId function, std::vector<std::uint16_t> physical);
  void remove(FunctionId function) { tables_.erase(function); }

  /// The port's index of an outbound packet's P_Key; none if the function does not have the entry,
  /// or it holds no valid P_Key.
  [[nodiscard]] std::optional<std::uint16_t> to_physical(FunctionId function,
                                                         std::uint16_t index) const;
  /// The function's index of the entry that matches an inbound packet's P_Key (IBTA vol 1
  /// §10.9.3): a full member's entry first, then a limited one; none if nothing matches.
  [[nodiscard]] std::optional<std::uint16_t> to_virtual(FunctionId function, PKey packet) const;
  /// True if the function has the partition.
  [[nodiscard]] bool has_partition(FunctionId function, PKey pkey) const;

  /// What the function reads in its table.
  [[nodiscard]] std::vector<PKey> table_of(FunctionId function) const;

 private:
  std::vector<PKey> physical_;
  std::map<FunctionId, std::vector<std::uint16_t>> tables_;
};

}  // namespace weft::sriov
