#pragma once

#include <cstdint>
#include <string>

#include "sim/outcome.h"

namespace weft::sim {

/// Connections and lookups of datagram services by RDMA-CM between the three hosts of a whole
/// fabric with its subnet manager and SA: addresses and routes are asked of a network that loses,
/// repeats and reorders whatever crosses a cable, answers of SA too; users refuse, give up, and end
/// with all that they have. Everything follows from the seed.
struct RdmaCmScenario {
  std::uint64_t seed{1};
  std::uint32_t connections{12};
  std::uint32_t loss{};  ///< in parts of a million, as are the next two
  std::uint32_t duplication{};
  std::uint32_t reordering{};
  bool a_program_dies{};

  [[nodiscard]] static RdmaCmScenario of_seed(std::uint64_t seed);
  [[nodiscard]] std::string describe() const;
};

/// `completions` are connections that were made, `lookups` those that were answered with a QP.
[[nodiscard]] Outcome run(const RdmaCmScenario& scenario);

}  // namespace weft::sim
