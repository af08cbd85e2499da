#include "fabric/path.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/assert.h"
#include "fabric/walk.h"

namespace weft::fabric {
namespace {

std::uint32_t slower(std::uint32_t a, std::uint32_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

/// Appends the rules on the link of `egress`, which is hop or edge `hop`.
template <class Tables>
void take_faults(const Tables& tables, PortIndex egress, std::size_t hop,
                 std::vector<LinkFault>& faults) {
  for (const FaultRecord& rule : tables.faults()) {
    if (rule.egress == kNoPort || rule.egress == egress) {
      faults.push_back({.hop = static_cast<std::uint32_t>(hop), .rule = rule});
    }
  }
}

/// Appends a cable to a path and updates the path's sums.
void add_hop(const TablesView& view, const Hop& hop, Path& path) {
  const PortRecord& egress = view.port(hop.egress);
  const PortRecord& ingress = view.port(hop.ingress);
  take_faults(view, hop.egress, path.hops.size(), path.faults);
  path.hops.push_back(hop);
  path.is_tapped |= egress.is_tapped() || ingress.is_tapped();
  path.mtu = std::min({path.mtu, egress.active_mtu, ingress.active_mtu});
  path.rate_mbps = slower(path.rate_mbps, egress.rate_mbps);
  if (egress.rate_mbps != 0) {
    path.rated.push_back({.egress = hop.egress, .rate = {egress.rate_mbps}});
  }
  path.delay = path.delay + egress.delay();
}

template <class Tables>
MulticastTree tree_of(const Tables& tables, PortIndex source, WalkLid mlid) {
  MulticastTree tree;
  tree.source = source;
  tree.stopped_at = source;
  const PortRecord& port = tables.port(source);
  tree.mtu = port.active_mtu;
  tree.is_tapped = port.is_tapped();
  if (!mlid.is_multicast()) {
    return tree;
  }
  if (!port.is_switch_port()) {
    if (port.state != PortState::Active) {
      tree.outcome = PathUse::SourceDown;
      return tree;
    }
    if (const auto failure = blocking_end(tables, source, Traffic::Data, mlid.type())) {
      tree.outcome = *failure;
      return tree;
    }
  }
  MulticastWalk walk{tables, source, mlid};
  bool is_timed = false;
  while (const auto branch = walk.next()) {
    const auto& [hop, parent] = *branch;
    if (hop.ingress == kNoPort) {
      tree.dropped_at.push_back(hop.egress);
      continue;
    }
    const PortRecord& egress = tables.port(hop.egress);
    const PortRecord& ingress = tables.port(hop.ingress);
    take_faults(tables, hop.egress, tree.edges.size(), tree.faults);
    tree.edges.push_back(hop);
    tree.timed.push_back({.rate = {egress.rate_mbps}, .delay = egress.delay(), .parent = parent});
    is_timed |= egress.rate_mbps != 0 || egress.delay() != Duration{};
    tree.is_tapped |= egress.is_tapped() || ingress.is_tapped();
    tree.mtu = std::min({tree.mtu, egress.active_mtu, ingress.active_mtu});
  }
  tree.members = std::move(walk.members());
  if (!is_timed && tree.faults.empty()) {
    tree.timed.clear();
  }
  tree.outcome = PathUse::Delivered;
  tree.stopped_at = kNoPort;
  return tree;
}

}  // namespace

Path resolve(const TablesView& view, PortIndex source, Lid dlid) {
  const PortRecord& from = view.port(source);
  Path path;
  path.source = source;
  path.generation = view.generation();
  path.mtu = from.active_mtu;
  path.is_tapped = from.is_tapped();
  UnicastWalk walk{
      view, source, LinkAddress{from.lid, dlid},
        Traffic::Data
  };
  while (const auto hop = walk.next()) {
    add_hop(view, *hop, path);
  }
  path.outcome = walk.end().outcome;
  path.end = walk.end().end;
  (path.is_delivered() ? path.destination : path.stopped_at) = walk.end().port;
  path.is_tapped |= view.port(walk.end().port).is_tapped();
  return path;
}

Path resolve(const TablesView& view, PortIndex source, Lid dlid, ServiceLevel sl) {
  if (!view.is_management_level(source, sl)) {
    return resolve(view, source, dlid);
  }
  Path path;
  path.outcome = PathUse::ManagementLane;
  path.end = PathEnd::ManagementLane;
  path.generation = view.generation();
  path.source = path.stopped_at = source;
  return path;
}

MulticastTree resolve_multicast(const TablesView& view, PortIndex source, Lid mlid,
                                ServiceLevel sl) {
  if (!view.is_management_level(source, sl)) {
    return resolve_multicast(view, source, mlid);
  }
  MulticastTree tree;
  tree.outcome = PathUse::ManagementLane;
  tree.generation = view.generation();
  tree.source = tree.stopped_at = source;
  return tree;
}

Path discarded_at(const Path& path, std::size_t hop) {
  WEFT_DEBUG_ASSERT(hop < path.hops.size(), "the hop is one of the path's");
  Path shorter = path;
  shorter.hops.resize(hop);
  shorter.outcome = PathUse::LinkDown;
  shorter.end = PathEnd::PortInactive;
  shorter.destination = kNoPort;
  shorter.stopped_at = path.hops[hop].egress;
  return shorter;
}

Path damaged_at(const Path& path, std::size_t hop) {
  WEFT_DEBUG_ASSERT(hop < path.hops.size(), "the hop is one of the path's");
  Path shorter = path;
  shorter.hops.resize(hop + 1);
  shorter.outcome = PathUse::LinkDown;
  shorter.end = PathEnd::Damaged;
  shorter.destination = kNoPort;
  shorter.stopped_at = path.hops[hop].ingress;
  return shorter;
}

MulticastTree resolve_multicast(const TablesView& view, PortIndex source, Lid mlid) {
  MulticastTree tree = tree_of(view, source, WalkLid{mlid});
  tree.generation = view.generation();
  return tree;
}

MulticastTree resolve_multicast(const TablesBuilder& tables, PortIndex source, Lid mlid) {
  return tree_of(tables, source, WalkLid{mlid});
}

MulticastTree resolve_multicast(const TablesBuilder& tables, PortIndex source, ExtendedLid mlid) {
  return tree_of(tables, source, WalkLid{mlid});
}

std::string describe(const TablesView& view, const Path& path) {
  std::string text;
  for (const Hop& hop : path.hops) {
    fmt::format_to(std::back_inserter(text), "{}{} -> {}", text.empty() ? "" : ", ",
                   port_name(view, hop.egress), port_name(view, hop.ingress));
  }
  if (path.hops.empty()) {
    text = port_name(view, path.source);
  }
  fmt::format_to(std::back_inserter(text), ": {}", name_of(path.outcome));
  if (!path.is_delivered() && path.stopped_at != kNoPort) {
    fmt::format_to(std::back_inserter(text), " (at {})", port_name(view, path.stopped_at));
  }
  return text;
}

}  // namespace weft::fabric
