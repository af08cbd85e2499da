#pragma once

#include <algorithm>

#include "base/time.h"
#include "node/fabric.h"

namespace weft::node::testing {

/// Lets the subnet manager react to what happened at `now`, for `span`.
inline void settle(Fabric& fabric, Instant now, Duration span = Duration::seconds(2)) {
  const Instant end = now + span;
  while (now <= end) {
    while (fabric.run_management(now)) {
    }
    now = std::max(now, fabric.management_deadline());
  }
}

}  // namespace weft::node::testing
