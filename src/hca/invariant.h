#pragma once

#include <cstdio>
#include <cstdlib>

namespace weft::hca {

/// Aborts unless a rule holds that no input of a peer may break. Simulations and fuzzers check
/// invariants constantly (Qp::check_invariants), also in optimised builds, in which
/// WEFT_DEBUG_ASSERT does nothing.
inline void invariant(bool holds, const char* rule) {
  if (!holds) {
    std::fprintf(stderr, "invariant broken: %s\n", rule);
    std::abort();
  }
}

}  // namespace weft::hca
