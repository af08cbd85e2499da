#pragma once

// Which function has which GID at a port. One thread at a time.

#include <cstdint>
#include <map>
#include <optional>

#include "base/identifiers.h"
#include "base/result.h"
#include "sriov/types.h"

namespace weft::sriov {

class GidTable {
 public:
  explicit GidTable(std::uint64_t subnet_prefix) : subnet_prefix_(subnet_prefix) {}

  void set_subnet_prefix(std::uint64_t prefix) { subnet_prefix_ = prefix; }
  [[nodiscard]] std::uint64_t subnet_prefix() const { return subnet_prefix_; }

  /// Exists: another function has it. InvalidArgument: 0 is no GUID.
  [[nodiscard]] Result<void> set(FunctionId function, Guid guid);
  void remove(FunctionId function);

  /// By a GID with the port's prefix or the default one, which is always valid (IBTA vol 1 §4.1.1).
  [[nodiscard]] std::optional<FunctionId> find(const Gid& gid) const;
  [[nodiscard]] std::optional<Gid> gid_of(FunctionId function) const;

 private:
  std::uint64_t subnet_prefix_;
  std::map<Guid, FunctionId> by_guid_;
  std::map<FunctionId, Guid> by_function_;
};

}  // namespace weft::sriov
