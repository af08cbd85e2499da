#pragma once

#include <cstdint>
#include <string>

#include "sim/outcome.h"

namespace weft::sim {

/// RDMA-CM connections and datagram service lookups among the three hosts of a complete fabric with
/// subnet manager and SA. The network loses, duplicates and reorders everything that crosses a
/// cable, including address and path resolution. Users reject, give up, or die. Everything is
/// determined by the seed.
struct RdmaCmScenario {
  std::uint64_t seed{1};
  std::uint32_t connections{12};
  std::uint32_t loss{};  ///< in 1/1,000,000, as the next two
  std::uint32_t duplication{};
  std::uint32_t reordering{};
  bool a_program_dies{};

  [[nodiscard]] static RdmaCmScenario of_seed(std::uint64_t seed);
  [[nodiscard]] std::string describe() const;
};

/// Runs the scenario. `completions` counts established connections, `lookups` those answered with a
/// QP.
[[nodiscard]] Outcome run(const RdmaCmScenario& scenario);

}  // namespace weft::sim
