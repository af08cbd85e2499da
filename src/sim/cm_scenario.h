#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "sim/network.h"
#include "sim/outcome.h"

namespace weft::sim {

/// Managed connections among three hosts, including loopback: client/server, peer-to-peer, and
/// CmReliableConnections; some load alternate paths (LAP, APR) and migrate to them. Also service ID
/// resolution (SIDR). The network loses, duplicates and reorders MADs and packets; programs and
/// hosts die and restart. Everything is determined by the seed.
struct CmScenario {
  std::uint64_t seed{1};
  std::uint32_t connections{16};
  FaultOptions mad_faults{};
  FaultOptions data_faults{};
  bool a_program_dies{};
  bool a_host_dies{};

  [[nodiscard]] static CmScenario of_seed(std::uint64_t seed);
  [[nodiscard]] std::string describe() const;
};

/// Runs the scenario. `completions` counts established connections, `delivered` counts messages.
[[nodiscard]] Outcome run(const CmScenario& scenario);

}  // namespace weft::sim
