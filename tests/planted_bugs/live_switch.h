#pragma once

#include <span>

#include "base/live_bug.h"

namespace weft {

/// Plants one mistake in this program, and takes safety nets away, until its end of life.
class Planting {
 public:
  Planting(LiveBug bug, std::span<const SafetyNet> missing_nets);
  ~Planting();
  Planting(const Planting&) = delete;
  Planting& operator=(const Planting&) = delete;
};

}  // namespace weft
