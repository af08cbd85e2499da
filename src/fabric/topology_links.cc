// What is said of links and of time, for all of a fabric.

#include <fmt/format.h>

#include <cmath>

#include "fabric/topology.h"

namespace weft::fabric {

Result<TimeScale> time_scale_of(double factor) {
  constexpr double kLeast = static_cast<double>(TimeScale::kLeast) / TimeScale::kOne;
  constexpr double kMost = static_cast<double>(TimeScale::kMost) / TimeScale::kOne;
  if (!(factor >= kLeast && factor <= kMost)) {
    return fail(ErrorCode::InvalidArgument,
                "a time scale is a number in {}..{}: 0.1 for timeouts of a tenth, 1 for those of "
                "the specification",
                kLeast, kMost);
  }
  return TimeScale{static_cast<std::uint32_t>(std::llround(factor * TimeScale::kOne))};
}

Result<void> apply(const LinkDefaults& defaults, Topology& topology) {
  for (LinkDescription& link : topology.links) {
    if (!link.rate_gbps) {
      link.rate_gbps = defaults.rate_gbps;
    }
    if (link.delay == Duration{}) {
      link.delay = defaults.delay;
    }
  }
  return validate(topology);
}

}  // namespace weft::fabric
