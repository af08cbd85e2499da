#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace weft::sim::testing {

struct Seeds {
  std::uint64_t first{1};
  std::uint64_t count{};
};

/// WEFT_SIM_SEEDS runs more than the ordinary 500 (10,000 in a long run); WEFT_SIM_SEED runs one
/// again.
[[nodiscard]] inline Seeds seeds_of_environment() {
  if (const char* one = std::getenv("WEFT_SIM_SEED"); one != nullptr) {
    return {.first = std::stoull(one), .count = 1};
  }
  const char* count = std::getenv("WEFT_SIM_SEEDS");
  return {.first = 1, .count = count != nullptr ? std::stoull(count) : 500};
}

}  // namespace weft::sim::testing
