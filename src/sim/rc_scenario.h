#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "sim/network.h"
#include "sim/outcome.h"

namespace weft::sim {

/// Parameters of a run of mixed RC operations, all determined by the seed.
struct RcScenario {
  std::uint64_t seed{};
  FaultOptions faults;
  std::uint32_t hosts{3};
  std::uint32_t processes{4};  ///< more than hosts, so that some share a host
  std::uint32_t pairs{4};
  std::uint32_t operations_per_side{40};
  std::uint32_t max_message_bytes{3000};
  bool over_xrc{};        ///< an XRC initiator and target with an XRC SRQ at each end
  bool a_process_dies{};  ///< and another takes its place on the same host
  /// that of all first ports, permanently; connections use both ports (APM)
  bool a_network_dies{};
  /// Direct placement (hca/placement.h), but while a path is watched: now and then, for a while.
  bool places{};
  bool shares_pages{};  ///< then placed in pages that both ends map: short ones and atomics, too
  Duration partition;   ///< duration of a partition between two hosts; zero: none

  /// The standard mix for a seed: 1 % loss, duplication and corruption each, and reordering; in 10
  /// % of runs a process dies, in 10 % there is a partition shorter than the retries, in 5 % a
  /// longer one.
  static RcScenario of_seed(std::uint64_t seed);

  /// Description sufficient to repeat the run.
  [[nodiscard]] std::string describe() const;
};

/// Runs the scenario and checks: SENDs arrive exactly once and in order; signaled WQEs complete
/// once and in order, not before their data is placed; atomics execute once; no byte outside the
/// requested ranges changes; RNR delays are kept; no QP is lost or stuck; only peers of dead
/// processes see errors. Armed connections survive the death of a network.
[[nodiscard]] Outcome run(const RcScenario& scenario);

}  // namespace weft::sim
