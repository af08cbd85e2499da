// What is said of links and of time, for all of a fabric.

#include <fmt/format.h>

#include <cmath>

#include "fabric/topology.h"
#include "fabric/topology_check.h"

namespace weft::fabric {

namespace internal {

bool is_rate(double gbps) {  // false for NaN, too
  return gbps >= kLeastRateGbps && gbps <= kMostRateGbps;
}

}  // namespace internal

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
  if (defaults.rate_gbps && !internal::is_rate(*defaults.rate_gbps)) {
    return fail(ErrorCode::InvalidArgument, "a link has {}..{} Gb/s, or no limit", kLeastRateGbps,
                kMostRateGbps);
  }
  if (defaults.delay < Duration{} || defaults.delay > kLongestDelay) {
    return fail(ErrorCode::InvalidArgument, "a link's delay is 0 to {} ns",
                kLongestDelay.nanoseconds());
  }
  for (LinkDescription& link : topology.links) {
    if (!link.rate_gbps) {
      link.rate_gbps = defaults.rate_gbps;
    }
    if (link.delay == Duration{}) {
      link.delay = defaults.delay;
    }
  }
  return {};
}

}  // namespace weft::fabric
