#pragma once

// What a virtual function of a port is given (fabric/virtual_ports.h). Values without behaviour or
// threading rule.

#include <cstdint>
#include <string>
#include <vector>

#include "base/keys.h"
#include "verbs/port_policy.h"

namespace weft::fabric {

/// What a function may use of its port, all of its programs together; 0: no limit.
struct FunctionQuotas {
  std::uint32_t mads_per_second{};  // by QP0 and QP1
  std::uint32_t groups{};           // at SA
  bool operator==(const FunctionQuotas&) const = default;
};

struct FunctionDescription {
  std::string name;                     // of its host
  std::vector<std::uint16_t> pkeys{0};  // which entries of the port's P_Key table, in its order
  FunctionQuotas quotas{};
  verbs::PortPolicy policy{verbs::PortPolicy::Follow};
  bool is_trusted{};  // its QPs may have the well-known Q_Key, as ibacm's do
  bool operator==(const FunctionDescription&) const = default;
};

/// A function that a topology file names.
struct PlannedFunction {
  std::string name;           // of its host
  std::vector<PKey> pkeys{};  // of its port; none: the first one
  FunctionQuotas quotas{};
  bool is_trusted{};
  bool operator==(const PlannedFunction&) const = default;
};

}  // namespace weft::fabric
