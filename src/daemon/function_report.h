#pragma once

// What `weft vf show`, `weft explain mad` and `weft status` are told of ports that virtual
// functions share: each function, what it has of its quotas, and what the multiplexer did with its
// MADs and why. JSON; the commands make tables of it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/time.h"
#include "fabric/tables.h"
#include "node/shared_ports.h"

namespace weft::daemon {

/// What the programs of a host have.
struct HostUse {
  std::size_t programs{};
  std::size_t qps{};
  std::uint64_t packets_on_vl15{};  // sent by a service level that the port maps to it: dropped
};

/// An array of the shared ports, each with its functions, the physical one first.
[[nodiscard]] std::string functions_json(const fabric::TablesView& view,
                                         const node::SharedPorts& shared,
                                         const std::map<fabric::NodeIndex, HostUse>& use);

/// An array of the MADs that were decided on lately at all shared ports, the oldest first at each.
[[nodiscard]] std::string decisions_json(const fabric::TablesView& view,
                                         const node::SharedPorts& shared, Instant now);

/// An array of the shared ports with the names of their functions, and how many MADs had which end.
[[nodiscard]] nlohmann::json shared_ports_json(const fabric::TablesView& view,
                                               const node::SharedPorts& shared);

}  // namespace weft::daemon
