#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "sim/network.h"
#include "sim/outcome.h"

namespace weft::sim {

/// What a run of mixed RC operations is made of; all of it follows from the seed.
struct RcScenario {
  std::uint64_t seed{};
  FaultOptions faults;
  std::uint32_t hosts{3};
  std::uint32_t processes{4};  ///< more than hosts: some share one
  std::uint32_t pairs{4};
  std::uint32_t operations_per_side{40};
  std::uint32_t max_message_bytes{3000};
  bool over_xrc{};        ///< an initiator and a target at each end, with an XRC SRQ
  bool a_process_dies{};  ///< and another takes its place on the host
  bool a_network_dies{};  ///< that of the first ports, for good; connections have both (APM)
  Duration partition;     ///< two hosts lose sight of each other for so long; zero: never

  /// The standard mix for a seed: 1 % loss, duplication and corruption, reordering; a death in one
  /// of ten, a partition that retries outlast in one of ten, one that they do not in one of twenty.
  static RcScenario of_seed(std::uint64_t seed);

  /// In words, enough to run it again.
  [[nodiscard]] std::string describe() const;
};

/// Runs to the end and checks: SENDs arrive exactly once and in order, one completion for each
/// signalled WQE in order, no completion before placement, atomics executed once, no byte outside
/// what was asked for, RNR waits kept, no QP lost or stuck; the peers of the dead, and only they,
/// are told. Connections that are armed outlive the death of a network.
[[nodiscard]] Outcome run(const RcScenario& scenario);

}  // namespace weft::sim
