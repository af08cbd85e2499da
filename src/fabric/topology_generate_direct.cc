// Generators of direct networks, in which every switch has hosts.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>
#include <vector>

#include "fabric/topology.h"
#include "fabric/topology_nodes.h"

namespace weft::fabric {

using internal::cable;
using internal::cable_hosts;
using internal::check_lids;
using internal::kUnicastLids;
using internal::make_nodes;
using internal::switch_end;

Result<Topology> generate_torus(const std::vector<std::uint32_t>& sizes, std::uint32_t hosts) {
  constexpr std::size_t kMaxDimensions = 5;  // policy: more than any machine was built with
  const std::string shape = fmt::format("{}", fmt::join(sizes, "x"));
  if (sizes.empty() || sizes.size() > kMaxDimensions || std::ranges::min(sizes) < 2) {
    return fail(ErrorCode::InvalidArgument,
                "a torus of {} is not possible: 1 to {} dimensions of at least 2 are, as in 4x4x4",
                shape, kMaxDimensions);
  }
  const std::uint32_t ports = hosts + 2 * static_cast<std::uint32_t>(sizes.size());
  if (hosts < 1 || hosts > kMaxPortsPerSwitch || ports > kMaxPortsPerSwitch) {
    return fail(ErrorCode::InvalidArgument,
                "{} hosts a switch are not possible: a torus of {} leaves 1 to {}", hosts, shape,
                kMaxPortsPerSwitch - 2 * sizes.size());
  }
  std::uint64_t switches = 1;
  for (const std::uint32_t size : sizes) {
    switches = std::min<std::uint64_t>(switches * size, kUnicastLids + 1ULL);
  }
  if (auto checked = check_lids(fmt::format("a torus of {}", shape), switches * hosts, switches);
      !checked) {
    return std::unexpected(checked.error());
  }
  const auto count = static_cast<std::uint32_t>(switches);
  Topology topology = make_nodes(count * hosts, count, ports);
  cable_hosts(topology, count, hosts);
  std::uint32_t stride = 1;  // from a switch to the next in this dimension
  std::uint32_t port = hosts + 1;
  for (const std::uint32_t size : sizes) {
    for (std::uint32_t node = 0; node < count; ++node) {
      const std::uint32_t place = node / stride % size;
      if (place + 1 < size) {
        topology.links.push_back(
            cable(switch_end(node, port), switch_end(node + stride, port + 1)));
      } else if (size > 2) {
        topology.links.push_back(
            cable(switch_end(node, port), switch_end(node - place * stride, port + 1)));
      }
    }
    stride *= size;
    port += 2;
  }
  return topology;
}

Result<Topology> generate_dragonfly(std::uint32_t a, std::uint32_t p, std::uint32_t h,
                                    std::optional<std::uint32_t> groups) {
  if (a < 1 || p < 1 || h < 1 || std::max({a, p, h}) > kMaxPortsPerSwitch ||
      p + a - 1 + h > kMaxPortsPerSwitch) {
    return fail(ErrorCode::InvalidArgument,
                "a dragonfly of {} switches a group, {} hosts and {} global cables a switch is not "
                "possible: each is at least 1, and hosts, global cables and the group's other "
                "switches together at most {}",
                a, p, h, kMaxPortsPerSwitch);
  }
  const std::uint32_t most = a * h + 1;
  const std::uint32_t count = groups.value_or(most);
  if (count < 2 || count > most) {
    return fail(ErrorCode::InvalidArgument,
                "a dragonfly of {} groups is not possible: with {} switches of {} global cables "
                "each, 2 to {} are",
                count, a, h, most);
  }
  const std::uint64_t switches = std::uint64_t{count} * a;
  if (auto checked =
          check_lids(fmt::format("a dragonfly of {} groups", count), switches * p, switches);
      !checked) {
    return std::unexpected(checked.error());
  }
  Topology topology = make_nodes(count * a * p, count * a, p + a - 1 + h);
  cable_hosts(topology, count * a, p);
  for (std::uint32_t group = 0; group < count; ++group) {
    for (std::uint32_t one = 0; one < a; ++one) {
      for (std::uint32_t other = one + 1; other < a; ++other) {  // ports skip the switch itself
        topology.links.push_back(cable(switch_end(group * a + one, p + other),
                                       switch_end(group * a + other, p + one + 1)));
      }
    }
  }
  // A group's global cables are numbered across its switches; those to the previous group come
  // before those to the next.
  const std::uint32_t parallel = a * h / (count - 1);
  const auto global_end = [&](std::uint32_t group, std::uint32_t to, std::uint32_t which) {
    const std::uint32_t number = (to < group ? to : to - 1) * parallel + which;
    return switch_end(group * a + number / h, p + a + number % h);
  };
  for (std::uint32_t group = 0; group < count; ++group) {
    for (std::uint32_t to = group + 1; to < count; ++to) {
      for (std::uint32_t which = 0; which < parallel; ++which) {
        topology.links.push_back(cable(global_end(group, to, which), global_end(to, group, which)));
      }
    }
  }
  return topology;
}

}  // namespace weft::fabric
