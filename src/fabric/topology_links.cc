// Settings for the whole fabric: defaults of links, their faults, time scale.

#include <fmt/format.h>

#include <cmath>

#include "fabric/tables.h"
#include "fabric/topology.h"
#include "fabric/topology_check.h"

namespace weft::fabric {

Result<TimeScale> time_scale_of(double factor) {
  constexpr double kLeast = static_cast<double>(TimeScale::kMin) / TimeScale::kOne;
  constexpr double kMost = static_cast<double>(TimeScale::kMax) / TimeScale::kOne;
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

Result<std::vector<EndPoint>> cabled_ports(const Topology& topology, std::string_view name) {
  std::vector<EndPoint> found;
  for (const LinkDescription& link : topology.links) {
    for (const EndPoint& end : {link.a, link.b}) {
      const std::string full = to_string(topology, end);
      const std::string_view node_or_hca = std::string_view{full}.substr(0, full.find(':'));
      if (full == name || node_or_hca == name) {
        found.push_back(end);
      }
    }
  }
  if (found.empty()) {
    return fail(ErrorCode::NotFound,
                "no cabled port {}: name a node of the fabric ({}?) or one of its ports, as h1, "
                "h1:1 or s1:3",
                name, name.substr(0, name.find(':')));
  }
  return found;
}

Result<void> internal::check_faults(const Topology& topology) {
  if (topology.faults.size() > kMaxFaultRules) {
    return fail(ErrorCode::InvalidArgument, "{} faults; at most {} are possible",
                topology.faults.size(), kMaxFaultRules);
  }
  for (const FaultDescription& fault : topology.faults) {
    if (fault.port.empty()) {
      continue;
    }
    if (const auto ports = cabled_ports(topology, fault.port); !ports) {
      return fail(ErrorCode::InvalidArgument, "fault '{}': {}", to_string(fault),
                  ports.error().reason);
    }
  }
  return {};
}

}  // namespace weft::fabric
