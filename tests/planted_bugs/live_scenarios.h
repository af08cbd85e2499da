#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/live_bug.h"
#include "base/time.h"

namespace weft {

/// What a fabric must do that `bug` breaks. `run` is true when all of it was done, each step within
/// `patience`.
struct LiveScenario {
  LiveBug bug;
  std::string_view name;
  std::vector<SafetyNet> taken_away;  // nets that would hide the mistake; without it none is needed
  bool (*run)(Duration wait_limit);
};

[[nodiscard]] std::span<const LiveScenario> live_scenarios();

}  // namespace weft
