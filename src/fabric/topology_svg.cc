#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

#include "fabric/topology_drawing.h"
#include "fabric/topology_graph.h"

namespace weft::fabric {
namespace {

// In pixels; all policy.
constexpr double kNodeWidth = 56;
constexpr double kNodeHeight = 26;
constexpr double kSpacing = 68;  // between the centres of neighbours
constexpr double kRowHeight = 150;
constexpr double kRingGap = 100;
constexpr double kMargin = 40;
/// Position of a port number along its cable, as a fraction.
constexpr double kLabelPlace = 0.2;

struct Point {
  double x{};
  double y{};
};

struct Layout {
  std::vector<Point> hosts;
  std::vector<Point> switches;
};

/// The hosts in the order of their switches, those of one switch next to each other.
std::vector<std::uint32_t> hosts_by_switch(const Topology& topology) {
  std::vector<std::uint32_t> of(topology.hosts.size());  // 0: none
  const auto note = [&](const EndPoint& host, const EndPoint& other) {
    if (host.kind == NodeKind::Host && other.kind == NodeKind::Switch && of[host.node] == 0) {
      of[host.node] = other.node + 1;
    }
  };
  for (const LinkDescription& link : topology.links) {
    note(link.a, link.b);
    note(link.b, link.a);
  }
  std::vector<std::uint32_t> order(topology.hosts.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, {}, [&](std::uint32_t host) { return std::pair{of[host], host}; });
  return order;
}

/// Places hosts at the bottom and switches above by their distance from them; all rows have the
/// width of the widest.
Layout in_rows(const Topology& topology, const std::vector<std::uint32_t>& distance) {
  std::vector<std::vector<Point*>> rows(std::ranges::max(distance) + 1);
  Layout layout{.hosts = std::vector<Point>(topology.hosts.size()),
                .switches = std::vector<Point>(topology.switches.size())};
  for (const std::uint32_t host : hosts_by_switch(topology)) {
    rows[0].push_back(&layout.hosts[host]);
  }
  for (std::size_t node = 0; node < distance.size(); ++node) {
    // Switches that reach no host go to the top.
    rows[distance[node] == 0 ? rows.size() - 1 : distance[node]].push_back(&layout.switches[node]);
  }
  const std::size_t widest = std::ranges::max(rows, {}, &std::vector<Point*>::size).size();
  const double width = static_cast<double>(widest) * kSpacing;
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const double step = width / static_cast<double>(rows[row].size());
    for (std::size_t i = 0; i < rows[row].size(); ++i) {
      *rows[row][i] = {.x = step * (static_cast<double>(i) + 0.5),
                       .y = kRowHeight * static_cast<double>(rows.size() - 1 - row)};
    }
  }
  return layout;
}

double radius_for(std::size_t nodes) {
  return nodes < 2 ? 0 : static_cast<double>(nodes) * kSpacing / std::numbers::pi / 2;
}

Point on_circle(double radius, std::size_t place, std::size_t places) {
  const double angle = 2 * std::numbers::pi * (static_cast<double>(place) + 0.5) /
                       static_cast<double>(std::max<std::size_t>(places, 1));
  return {.x = radius * std::sin(angle), .y = -radius * std::cos(angle)};
}

Layout is_cyclic(const Topology& topology) {
  Layout layout{.hosts = std::vector<Point>(topology.hosts.size()), .switches = {}};
  const double inner = radius_for(topology.switches.size());
  const double outer = std::max(topology.switches.empty() ? kSpacing : inner + kRingGap,
                                radius_for(topology.hosts.size()));
  for (std::size_t node = 0; node < topology.switches.size(); ++node) {
    layout.switches.push_back(on_circle(inner, node, topology.switches.size()));
  }
  std::size_t place = 0;
  for (const std::uint32_t host : hosts_by_switch(topology)) {
    layout.hosts[host] = on_circle(outer, place++, topology.hosts.size());
  }
  return layout;
}

/// Shifts everything into the picture; returns its lower right corner.
Point fit(Layout& layout) {
  Point least = layout.hosts.front();
  Point most = least;
  for (auto* nodes : {&layout.hosts, &layout.switches}) {
    for (const Point& point : *nodes) {
      least = {.x = std::min(least.x, point.x), .y = std::min(least.y, point.y)};
      most = {.x = std::max(most.x, point.x), .y = std::max(most.y, point.y)};
    }
  }
  for (auto* nodes : {&layout.hosts, &layout.switches}) {
    for (Point& point : *nodes) {
      point = {.x = point.x - least.x + kMargin, .y = point.y - least.y + kMargin};
    }
  }
  return {.x = most.x - least.x + 2 * kMargin, .y = most.y - least.y + 2 * kMargin};
}

void write_links(const Topology& topology, const Layout& layout, std::string& text) {
  const auto out = std::back_inserter(text);
  const auto place = [&](const EndPoint& end) {
    return end.kind == NodeKind::Switch ? layout.switches[end.node] : layout.hosts[end.node];
  };
  const auto label = [&](const EndPoint& end, const Point& from, const Point& to) {
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{:.1f}\" class=\"port\">{}</text>\n",
                   from.x + (to.x - from.x) * kLabelPlace, from.y + (to.y - from.y) * kLabelPlace,
                   internal::port_of(topology, end));
  };
  for (const LinkDescription& link : topology.links) {
    const Point a = place(link.a);
    const Point b = place(link.b);
    fmt::format_to(out, "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\"/>\n", a.x,
                   a.y, b.x, b.y);
    label(link.a, a, b);
    label(link.b, b, a);
  }
}

}  // namespace

// Names need no escaping: check_name() allows no character that is special in XML.
std::string write_svg(const Topology& topology) {
  const std::vector<std::uint32_t> distance = internal::distances(topology);
  const bool has_rows = !distance.empty() && std::ranges::max(distance) > 1;
  Layout layout = has_rows ? in_rows(topology, distance) : is_cyclic(topology);
  const Point size = fit(layout);
  std::string text = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
      "viewBox=\"0 0 {0:.0f} {1:.0f}\">\n"
      "<style>line {{ stroke: #555555 }} rect {{ fill: #dde8f4; stroke: black }} ellipse {{ fill: "
      "white; stroke: black }} text {{ font: 11px sans-serif; text-anchor: middle; "
      "dominant-baseline: central }} .port {{ font-size: 8px }}</style>\n",
      size.x, size.y);
  write_links(topology, layout, text);
  const auto out = std::back_inserter(text);
  const auto name = [&](const Point& at, const std::string& what) {
    fmt::format_to(out, "<text x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", at.x, at.y, what);
  };
  for (std::size_t i = 0; i < topology.hosts.size(); ++i) {
    const Point& at = layout.hosts[i];
    fmt::format_to(out, "<ellipse cx=\"{:.1f}\" cy=\"{:.1f}\" rx=\"{}\" ry=\"{}\"/>\n", at.x, at.y,
                   kNodeWidth / 2, kNodeHeight / 2);
    name(at, topology.hosts[i].name);
  }
  for (std::size_t i = 0; i < topology.switches.size(); ++i) {
    const Point& at = layout.switches[i];
    fmt::format_to(out, "<rect x=\"{:.1f}\" y=\"{:.1f}\" width=\"{}\" height=\"{}\"/>\n",
                   at.x - kNodeWidth / 2, at.y - kNodeHeight / 2, kNodeWidth, kNodeHeight);
    name(at, topology.switches[i].name);
  }
  text += "</svg>\n";
  return text;
}

}  // namespace weft::fabric
