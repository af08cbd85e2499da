// The generators of topology.h. Each fills vectors by position, so that ten thousand hosts take
// milliseconds.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "fabric/topology.h"
#include "fabric/topology_nodes.h"

namespace weft::fabric {

using internal::cable;
using internal::cable_hosts;
using internal::check_lids;
using internal::host_end;
using internal::make_nodes;
using internal::switch_end;

namespace {

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

/// Pod p has leaves and aggregation switches p*half .. p*half + half-1. Aggregation switch a of
/// each pod connects to cores a*half .. a*half + half-1, which have one port per pod.
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

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(separators);
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

bool is_of_omni_path(std::span<const std::string_view> words) {
  return !words.empty() && words[0] == key_of(LinkType::OmniPath);
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
  if (auto checked =
          check_lids(fmt::format("a fat tree of k {} and {} levels", k, levels), hosts, switches);
      !checked) {
    return fail(checked.error().code, "{}: with 3 levels, k is at most 56", checked.error().reason);
  }
  return levels == 2 ? two_levels(k) : three_levels(k);
}

namespace {

/// The kind and its numbers, without what says of which links it is.
Result<Topology> generate(std::span<const std::string_view> words, std::string_view description) {
  const bool is_torus = words[0] == "torus" && words.size() > 1;
  const auto sizes =
      read_numbers(is_torus ? split(words[1], "x") : std::vector<std::string_view>{});
  const auto numbers = read_numbers(words.subspan(is_torus ? 2 : 1));
  if (!sizes) {
    return fail(ErrorCode::InvalidArgument, "topology '{}': {}", description, sizes.error().reason);
  }
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
  if (is_torus && numbers->size() <= 1) {
    return generate_torus(*sizes, numbers->empty() ? 1 : (*numbers)[0]);
  }
  if (words[0] == "dragonfly" && (numbers->size() == 3 || numbers->size() == 4)) {
    const auto groups = numbers->size() == 4 ? std::optional{(*numbers)[3]} : std::nullopt;
    return generate_dragonfly((*numbers)[0], (*numbers)[1], (*numbers)[2], groups);
  }
  return fail(ErrorCode::InvalidArgument, "topology '{}' has the wrong count of numbers: {}",
              description, kGeneratorForms);
}

}  // namespace

bool names_a_generator(std::string_view description) {
  constexpr std::array<std::string_view, 5> kKinds = {"pair", "star", "fat-tree", "torus",
                                                      "dragonfly"};
  const std::vector<std::string_view> words = split(description, ": ");
  const std::size_t kind = is_of_omni_path(words) ? 1 : 0;
  return words.size() > kind && std::ranges::find(kKinds, words[kind]) != kKinds.end();
}

Result<Topology> generate(std::string_view description) {
  std::vector<std::string_view> words = split(description, ": ");
  if (!names_a_generator(description)) {
    return fail(ErrorCode::InvalidArgument, "'{}' is no known topology: {} are", description,
                kGeneratorForms);
  }
  if (!is_of_omni_path(words)) {
    return generate(words, description);
  }
  words.erase(words.begin());
  auto topology = generate(words, description);
  if (topology) {
    set_link_type(*topology, LinkType::OmniPath);
  }
  return topology;
}

}  // namespace weft::fabric
