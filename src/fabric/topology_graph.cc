#include "fabric/topology_graph.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

#include "fabric/topology_drawing.h"

namespace weft::fabric {
namespace internal {

std::string_view name_of(const Topology& topology, const EndPoint& end) {
  return end.kind == NodeKind::Switch ? topology.switches[end.node].name
                                      : topology.hosts[end.node].name;
}

std::string port_of(const Topology& topology, const EndPoint& end) {
  const std::string text = to_string(topology, end);
  return text.substr(text.find_first_of(end.hca == 0 ? ':' : '/') + 1);
}

std::vector<std::uint32_t> distances(const Topology& topology) {
  std::vector<std::vector<std::uint32_t>> neighbours(topology.switches.size());
  std::vector<std::uint32_t> distance(topology.switches.size());
  std::vector<std::uint32_t> reached;
  const auto reach = [&](std::uint32_t node, std::uint32_t hops) {
    if (distance[node] == 0) {
      distance[node] = hops;
      reached.push_back(node);
    }
  };
  for (const LinkDescription& link : topology.links) {
    const bool a = link.a.kind == NodeKind::Switch;
    const bool b = link.b.kind == NodeKind::Switch;
    if (a && b) {
      neighbours[link.a.node].push_back(link.b.node);
      neighbours[link.b.node].push_back(link.a.node);
    } else if (a || b) {
      reach(a ? link.a.node : link.b.node, 1);
    }
  }
  for (std::size_t next = 0; next < reached.size(); ++next) {
    for (const std::uint32_t neighbour : neighbours[reached[next]]) {
      reach(neighbour, distance[reached[next]] + 1);
    }
  }
  return distance;
}

}  // namespace internal

using internal::name_of;
using internal::port_of;

std::string write_dot(const Topology& topology) {
  const std::vector<std::uint32_t> distance = internal::distances(topology);
  const std::uint32_t farthest = distance.empty() ? 0 : std::ranges::max(distance);
  std::string text = fmt::format(
      "graph fabric {{\n"
      "  graph [{}];\n"
      "  node [fontname=\"sans-serif\", fontsize=11];\n"
      "  edge [fontname=\"sans-serif\", fontsize=8, color=\"#555555\"];\n",
      farthest > 1 ? "rankdir=BT, ranksep=1.2, splines=line" : "layout=neato, overlap=false");
  const auto out = std::back_inserter(text);
  for (const HostDescription& host : topology.hosts) {
    fmt::format_to(out, "  \"{}\" [shape=ellipse];\n", host.name);
  }
  for (std::size_t node = 0; node < topology.switches.size(); ++node) {
    fmt::format_to(out, "  \"{}\" [shape=box, style=filled, fillcolor=\"#dde8f4\"];\n",
                   topology.switches[node].name);
  }
  for (std::uint32_t level = 1; farthest > 1 && level <= farthest; ++level) {
    text += "  { rank=same;";
    for (std::size_t node = 0; node < topology.switches.size(); ++node) {
      if (distance[node] == level) {
        fmt::format_to(out, " \"{}\";", topology.switches[node].name);
      }
    }
    text += " }\n";
  }
  for (const LinkDescription& link : topology.links) {
    fmt::format_to(out, "  \"{}\" -- \"{}\" [taillabel=\"{}\", headlabel=\"{}\"];\n",
                   name_of(topology, link.a), name_of(topology, link.b), port_of(topology, link.a),
                   port_of(topology, link.b));
  }
  text += "}\n";
  return text;
}

}  // namespace weft::fabric
