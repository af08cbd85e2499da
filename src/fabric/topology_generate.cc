// The generators of topology.h. Each fills vectors by position, so that ten thousand hosts cost
// milliseconds.

#include <fmt/format.h>

#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/topology.h"

namespace weft::fabric {
namespace {

constexpr std::uint32_t kUnicastLids = 0xBFFF;  // IBTA vol 1 §4.1.3

EndPoint host_end(std::uint32_t host) { return {NodeKind::Host, host, 0, PortNumber{1}}; }

EndPoint switch_end(std::uint32_t node, std::uint32_t port) {
  return {NodeKind::Switch, node, 0, PortNumber{static_cast<std::uint8_t>(port)}};
}

LinkDescription cable(EndPoint a, EndPoint b) { return {a, b, std::nullopt, Duration{}}; }

Topology make_nodes(std::uint32_t hosts, std::uint32_t switches, std::uint32_t ports_per_switch) {
  Topology topology;
  topology.hosts.reserve(hosts);
  for (std::uint32_t host = 1; host <= hosts; ++host) {
    topology.hosts.push_back(make_host(fmt::format("h{}", host)));
  }
  topology.switches.reserve(switches);
  for (std::uint32_t node = 1; node <= switches; ++node) {
    topology.switches.push_back(
        {fmt::format("s{}", node), static_cast<std::uint8_t>(ports_per_switch)});
  }
  return topology;
}

/// Hosts under leaves: host `leaf * half + i` on port i+1.
void cable_hosts(Topology& topology, std::uint32_t leaves, std::uint32_t half) {
  for (std::uint32_t host = 0; host < leaves * half; ++host) {
    topology.links.push_back(cable(host_end(host), switch_end(host / half, host % half + 1)));
  }
}

Topology two_levels(std::uint32_t k) {
  const std::uint32_t half = k / 2;
  Topology topology = make_nodes(k * half, k + half, k);
  cable_hosts(topology, k, half);
  for (std::uint32_t leaf = 0; leaf < k; ++leaf) {
    for (std::uint32_t spine = 0; spine < half; ++spine) {
      topology.links.push_back(
          cable(switch_end(leaf, half + spine + 1), switch_end(k + spine, leaf + 1)));
    }
  }
  return topology;
}

/// Pod p has leaves and aggregation switches p*half .. p*half + half-1; aggregation switch a of
/// each pod reaches cores a*half .. a*half + half-1, which have one port for each pod.
Topology three_levels(std::uint32_t k) {
  const std::uint32_t half = k / 2;
  const std::uint32_t per_layer = k * half;
  const std::uint32_t first_core = 2 * per_layer;
  Topology topology = make_nodes(per_layer * half, first_core + half * half, k);
  cable_hosts(topology, per_layer, half);
  for (std::uint32_t leaf = 0; leaf < per_layer; ++leaf) {
    const std::uint32_t pod = leaf / half;
    for (std::uint32_t up = 0; up < half; ++up) {
      topology.links.push_back(cable(switch_end(leaf, half + up + 1),
                                     switch_end(per_layer + pod * half + up, leaf % half + 1)));
    }
  }
  for (std::uint32_t aggregation = 0; aggregation < per_layer; ++aggregation) {
    for (std::uint32_t up = 0; up < half; ++up) {
      const std::uint32_t core = first_core + aggregation % half * half + up;
      topology.links.push_back(cable(switch_end(per_layer + aggregation, half + up + 1),
                                     switch_end(core, aggregation / half + 1)));
    }
  }
  return topology;
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(": ");
    if (end != 0) {
      words.push_back(text.substr(0, end));
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return words;
}

Result<std::vector<std::uint32_t>> read_numbers(std::span<const std::string_view> words) {
  std::vector<std::uint32_t> numbers;
  for (const std::string_view word : words) {
    std::uint32_t number = 0;
    const char* end = word.data() + word.size();
    const auto [stop, failure] = std::from_chars(word.data(), end, number);
    if (failure != std::errc{} || stop != end) {
      return fail(ErrorCode::InvalidArgument, "'{}' is not a number", word);
    }
    numbers.push_back(number);
  }
  return numbers;
}

}  // namespace

Topology generate_pair() {
  Topology topology = make_nodes(2, 0, 0);
  topology.links.push_back(cable(host_end(0), host_end(1)));
  return topology;
}

Result<Topology> generate_star(std::uint32_t hosts) {
  if (hosts < 2 || hosts > kMaxPortsPerSwitch) {
    return fail(ErrorCode::InvalidArgument,
                "a star of {} hosts is not possible: one switch takes 2 to {} hosts", hosts,
                kMaxPortsPerSwitch);
  }
  Topology topology = make_nodes(hosts, 1, hosts);
  cable_hosts(topology, 1, hosts);
  return topology;
}

Result<Topology> generate_fat_tree(std::uint32_t k, std::uint32_t levels) {
  if (levels != 2 && levels != 3) {
    return fail(ErrorCode::InvalidArgument, "a fat tree of {} levels is not possible: 2 or 3 are",
                levels);
  }
  if (k < 2 || k % 2 != 0 || k > kMaxPortsPerSwitch) {
    return fail(ErrorCode::InvalidArgument,
                "a fat tree of {}-port switches is not possible: k is even and in 2..{}", k,
                kMaxPortsPerSwitch);
  }
  const std::uint32_t hosts = levels == 2 ? k * k / 2 : k * k * k / 4;
  const std::uint32_t switches = levels == 2 ? k + k / 2 : k * k + k * k / 4;
  if (hosts + switches > kUnicastLids) {
    return fail(ErrorCode::InvalidArgument,
                "a fat tree of k {} and {} levels has {} hosts and {} switches, but a subnet has "
                "{} unicast LIDs: with 3 levels, k is at most 56",
                k, levels, hosts, switches, kUnicastLids);
  }
  return levels == 2 ? two_levels(k) : three_levels(k);
}

bool names_a_generator(std::string_view description) {
  const std::vector<std::string_view> words = split(description);
  return !words.empty() && (words[0] == "pair" || words[0] == "star" || words[0] == "fat-tree");
}

Result<Topology> generate(std::string_view description) {
  constexpr std::string_view kForms = "pair, star:N or fat-tree:K[:LEVELS]";
  const std::vector<std::string_view> words = split(description);
  if (!names_a_generator(description)) {
    return fail(ErrorCode::InvalidArgument, "'{}' is no known topology: {} are", description,
                kForms);
  }
  const auto numbers = read_numbers(std::span{words}.subspan(1));
  if (!numbers) {
    return fail(ErrorCode::InvalidArgument, "topology '{}': {}", description,
                numbers.error().reason);
  }
  if (words[0] == "pair" && numbers->empty()) {
    return generate_pair();
  }
  if (words[0] == "star" && numbers->size() == 1) {
    return generate_star((*numbers)[0]);
  }
  if (words[0] == "fat-tree" && (numbers->size() == 1 || numbers->size() == 2)) {
    return generate_fat_tree((*numbers)[0], numbers->size() == 2 ? (*numbers)[1] : 2);
  }
  return fail(ErrorCode::InvalidArgument, "topology '{}' has the wrong count of numbers: {}",
              description, kForms);
}

}  // namespace weft::fabric
