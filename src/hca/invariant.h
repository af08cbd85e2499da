#pragma once

#include <cstdio>
#include <cstdlib>

namespace weft::hca {

/// A rule that holds between any two calls, whatever the peer sends. Simulations and fuzzers ask
/// for them all the time (Qp::check_invariants), in optimised builds, too, where WEFT_DEBUG_ASSERT
/// is silent.
inline void invariant(bool holds, const char* rule) {
  if (!holds) {
    std::fprintf(stderr, "invariant broken: %s\n", rule);
    std::abort();
  }
}

}  // namespace weft::hca
