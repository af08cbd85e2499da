#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "hca/types.h"
#include "sim/network.h"
#include "sim/outcome.h"

namespace weft::sim {

/// Parameters of a run of UC connections or UD traffic, all determined by type and seed.
struct UnreliableScenario {
  hca::QpType type{hca::QpType::Uc};
  std::uint64_t seed{};
  FaultOptions faults;
  bool keeps_order{};  ///< the network neither duplicates nor reorders
  std::uint32_t hosts{3};
  std::uint32_t processes{4};  ///< more than hosts, so that some share a host
  std::uint32_t pairs{3};
  std::uint32_t operations_per_end{60};
  Duration partition;  ///< duration of a partition between two hosts; zero: none

  /// The standard mix for a seed, `type` UC or UD: 1 % loss, 0.5 % corruption; one third of the
  /// networks keep the order, one third duplicate 1 % and delay 1 %, one third reorder everything
  /// in flight; 10 % have a partition.
  static UnreliableScenario of_seed(hca::QpType type, std::uint64_t seed);

  /// Description sufficient to repeat the run.
  [[nodiscard]] std::string describe() const;
};

/// Runs the scenario and checks. UC: a message is delivered completely or not at all, exactly if
/// its packets arrived consecutively and a receive was posted; later messages arrive; WRITEs stay
/// within their R_Key. UD: each copy of a datagram with the right Q_Key completes one receive, with
/// the right GRH, length and source. Both: packets sent match what was posted; sends complete once
/// and in order; no receive is lost; a QP in the error state flushes and can be reused; no byte
/// outside the requested ranges changes.
[[nodiscard]] Outcome run(const UnreliableScenario& scenario);

}  // namespace weft::sim
