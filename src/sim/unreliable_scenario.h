#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "hca/types.h"
#include "sim/network.h"
#include "sim/outcome.h"

namespace weft::sim {

/// What a run of UC connections, or of UD datagrams among all, is made of; all of it follows from
/// type and seed.
struct UnreliableScenario {
  hca::QpType type{hca::QpType::Uc};
  std::uint64_t seed{};
  FaultOptions faults;
  bool keeps_order{};  ///< the network neither repeats nor reorders
  std::uint32_t hosts{3};
  std::uint32_t processes{4};  ///< more than hosts: some share one
  std::uint32_t pairs{3};
  std::uint32_t operations_per_end{60};
  Duration partition;  ///< two hosts lose sight of each other for so long; zero: never

  /// The standard mix for a seed, `type` UC or UD: 1 % loss, 0.5 % corruption; a third of the
  /// networks keep order, a third repeat 1 % and have another 1 % overtaken, a third mix all that
  /// is under way; a partition in one of ten.
  static UnreliableScenario of_seed(hca::QpType type, std::uint64_t seed);

  /// In words, enough to run it again.
  [[nodiscard]] std::string describe() const;
};

/// Runs to the end and checks. UC: a message completes whole or not at all, exactly when its
/// packets arrived one after the other and a receive was there; later messages arrive; WRITEs stay
/// within their key. UD: each copy on the wire of a datagram with the right Q_Key completes one
/// receive, with GRH, length and source. Both: what goes out is what was posted, sends complete
/// once and in order, no receive gets lost, a QP that ends in error flushes and can start again, no
/// byte outside what was asked for.
[[nodiscard]] Outcome run(const UnreliableScenario& scenario);

}  // namespace weft::sim
