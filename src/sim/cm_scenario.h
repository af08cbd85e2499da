#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "sim/network.h"
#include "sim/outcome.h"

namespace weft::sim {

/// Managed connections between three hosts, in all directions and to oneself, from either side, of
/// peers and as CmReliableConnections, some of which load alternate paths (LAP, APR) and migrate to
/// them, and lookups of datagram services (SIDR), over a network that loses, repeats and reorders
/// their MADs and packets; programs and whole hosts die and come again. Everything follows from the
/// seed.
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

/// `completions` are connections that were made, `delivered` messages.
[[nodiscard]] Outcome run(const CmScenario& scenario);

}  // namespace weft::sim
