#include "fabric/path.h"

#include <fmt/format.h>

#include <algorithm>
#include <cassert>
#include <iterator>
#include <optional>
#include <unordered_set>

namespace weft::fabric {
namespace {

/// IBTA vol 1 §14.2.5.6: an Armed port receives data packets but sends none; an Active port does
/// both.
bool sends_data(const PortRecord& port) { return port.state == PortState::Active; }
bool takes_data(const PortRecord& port) {
  return port.state == PortState::Active || port.state == PortState::Armed;
}

/// What keeps the cable at `egress` from carrying data.
std::optional<PathOutcome> obstacle(const TablesView& view, const PortRecord& egress) {
  if (egress.peer == kNoPort) {
    return PathOutcome::NoCable;
  }
  if (!sends_data(egress) || !takes_data(view.port(egress.peer))) {
    return PathOutcome::LinkDown;
  }
  return std::nullopt;
}

std::uint32_t slower(std::uint32_t a, std::uint32_t b) {
  return a == 0 || b == 0 ? std::max(a, b) : std::min(a, b);
}

PortIndex port_of_switch(const NodeRecord& node, PortNumber number) {
  return PortIndex{node.first_port.value() + number.value()};
}

/// The rules on the link that `egress` sends on, which is hop or edge `hop`.
void take_faults(const TablesView& view, PortIndex egress, std::size_t hop,
                 std::vector<LinkFault>& faults) {
  for (const FaultRecord& rule : view.faults()) {
    if (rule.egress == kNoPort || rule.egress == egress) {
      faults.push_back({.hop = static_cast<std::uint32_t>(hop), .rule = rule});
    }
  }
}

/// Walks from port to port, keeping the path's sums.
class Walk {
 public:
  Walk(const TablesView& view, PortIndex source, Lid dlid) : view_(view), dlid_(dlid) {
    path_.source = source;
    path_.generation = view.generation();
    path_.mtu = view.port(source).active_mtu;
    path_.is_tapped = view.port(source).is_tapped();
  }

  Path run() {
    const PortRecord& source = view_.port(path_.source);
    const bool from_switch = source.is_switch_port();
    assert(!from_switch || source.number == PortNumber{});
    if (dlid_.is_unicast() && source.owns(dlid_)) {  // loopback: inside one port, no cable crossed
      if (!from_switch && !sends_data(source)) {
        return stop(PathOutcome::SourceDown, PathEnd::PortInactive, path_.source);
      }
      return arrive(path_.source);
    }
    if (from_switch) {
      return relay(path_.source);
    }
    if (!sends_data(source)) {
      return stop(PathOutcome::SourceDown, PathEnd::PortInactive, path_.source);
    }
    return cross(path_.source) ? relay(path_.hops.back().ingress) : std::move(path_);
  }

 private:
  /// From an ingress port (or port 0 of a switch that sends) on to the end.
  Path relay(PortIndex ingress) {
    while (true) {
      const PortRecord& port = view_.port(ingress);
      if (!dlid_.is_unicast()) {
        return stop(PathOutcome::InvalidDlid,
                    port.is_switch_port() ? PathEnd::DlidMapping : PathEnd::Malformed, ingress);
      }
      if (!port.is_switch_port()) {
        return port.owns(dlid_) ? arrive(ingress)
                                : stop(PathOutcome::NotTheOwner, PathEnd::Malformed, ingress);
      }
      const NodeRecord& node = view_.node(port.node);
      const PortNumber number = view_.forward(node, dlid_);
      if (number == kNoRoute || number.value() >= node.port_count) {
        return stop(PathOutcome::NoRoute, PathEnd::DlidMapping, ingress);
      }
      const PortIndex egress = port_of_switch(node, number);
      if (number == PortNumber{}) {
        return view_.port(egress).owns(dlid_)
                   ? arrive(egress)
                   : stop(PathOutcome::NotTheOwner, PathEnd::DlidMapping, ingress);
      }
      if (egress == ingress) {  // PortSwitchLoopingErrors, IBTA vol 1 §16.1.4
        return stop(PathOutcome::Loop, PathEnd::Looping, ingress);
      }
      if (path_.hops.size() == kMaxHops) {
        return stop(PathOutcome::Loop, PathEnd::LifetimeLimit, egress);
      }
      if (!cross(egress)) {
        return std::move(path_);
      }
      ingress = path_.hops.back().ingress;
    }
  }

  bool cross(PortIndex index) {
    const PortRecord& egress = view_.port(index);
    if (const auto failure = obstacle(view_, egress)) {
      path_.is_tapped |= egress.is_tapped();
      stop_at(*failure, PathEnd::PortInactive, index);
      return false;
    }
    const PortRecord& ingress = view_.port(egress.peer);
    take_faults(view_, index, path_.hops.size(), path_.faults);
    path_.hops.push_back({index, egress.peer});
    path_.is_tapped |= egress.is_tapped() || ingress.is_tapped();
    path_.mtu = std::min({path_.mtu, egress.active_mtu, ingress.active_mtu});
    path_.rate_mbps = slower(path_.rate_mbps, egress.rate_mbps);
    if (egress.rate_mbps != 0) {
      path_.rated.push_back({.egress = index, .rate = {egress.rate_mbps}});
    }
    path_.delay = path_.delay + egress.delay();
    return true;
  }

  Path arrive(PortIndex port) {
    path_.outcome = PathOutcome::Delivered;
    path_.end = PathEnd::Delivered;
    path_.destination = port;
    path_.is_tapped |= view_.port(port).is_tapped();
    return std::move(path_);
  }

  void stop_at(PathOutcome outcome, PathEnd end, PortIndex port) {
    path_.outcome = outcome;
    path_.end = end;
    path_.stopped_at = port;
  }

  Path stop(PathOutcome outcome, PathEnd end, PortIndex port) {
    stop_at(outcome, end, port);
    return std::move(path_);
  }

  const TablesView& view_;
  Lid dlid_;
  Path path_;
};

/// Replication of one packet, breadth first. A switch relays once for each packet that comes in, so
/// tables with a loop would go on for ever: a cable direction is crossed once.
class Replication {
 public:
  Replication(const TablesView& view, Lid mlid, MulticastTree& tree)
      : view_(view), mlid_(mlid), tree_(tree) {}

  void cross(PortIndex index, std::uint32_t parent) {
    const PortRecord& egress = view_.port(index);
    if (obstacle(view_, egress)) {
      tree_.dropped_at.push_back(index);
      return;
    }
    if (!crossed_.insert(index.value()).second) {
      return;
    }
    const PortRecord& ingress = view_.port(egress.peer);
    take_faults(view_, index, tree_.edges.size(), tree_.faults);
    tree_.edges.push_back({index, egress.peer});
    tree_.timed.push_back({.rate = {egress.rate_mbps}, .delay = egress.delay(), .parent = parent});
    is_timed_ |= egress.rate_mbps != 0 || egress.delay() != Duration{};
    tree_.is_tapped |= egress.is_tapped() || ingress.is_tapped();
    tree_.mtu = std::min({tree_.mtu, egress.active_mtu, ingress.active_mtu});
    if (!ingress.is_switch_port()) {
      reach(egress.peer);
    }
  }

  void relay(PortIndex ingress, std::uint32_t parent) {
    const PortRecord& port = view_.port(ingress);
    const NodeRecord& node = view_.node(port.node);
    for (std::uint32_t number = 0; number < node.port_count; ++number) {
      const PortNumber egress_number{static_cast<std::uint8_t>(number)};
      const PortIndex egress = port_of_switch(node, egress_number);
      if (egress == ingress || !view_.forwards_multicast(node, mlid_, egress_number)) {
        continue;
      }
      if (number == 0) {
        reach(egress);
      } else {
        cross(egress, parent);
      }
    }
  }

  void relay_all() {
    for (std::size_t i = 0; i < tree_.edges.size(); ++i) {
      const PortIndex ingress = tree_.edges[i].ingress;
      if (view_.port(ingress).is_switch_port()) {
        relay(ingress, static_cast<std::uint32_t>(i));
      }
    }
    if (!is_timed_ && tree_.faults.empty()) {
      tree_.timed.clear();
    }
  }

 private:
  void reach(PortIndex port) {
    if (port != tree_.source && reached_.insert(port.value()).second) {
      tree_.members.push_back(port);
    }
  }

  const TablesView& view_;
  Lid mlid_;
  MulticastTree& tree_;
  std::unordered_set<std::uint32_t> crossed_;
  std::unordered_set<std::uint32_t> reached_;
  bool is_timed_{};
};

}  // namespace

Path resolve(const TablesView& view, PortIndex source, Lid dlid) {
  return Walk{view, source, dlid}.run();
}

Path discarded_at(const Path& path, std::size_t hop) {
  assert(hop < path.hops.size());
  Path shorter = path;
  shorter.hops.resize(hop);
  shorter.outcome = PathOutcome::LinkDown;
  shorter.end = PathEnd::PortInactive;
  shorter.destination = kNoPort;
  shorter.stopped_at = path.hops[hop].egress;
  return shorter;
}

Path damaged_at(const Path& path, std::size_t hop) {
  assert(hop < path.hops.size());
  Path shorter = path;
  shorter.hops.resize(hop + 1);
  shorter.outcome = PathOutcome::LinkDown;
  shorter.end = PathEnd::Damaged;
  shorter.destination = kNoPort;
  shorter.stopped_at = path.hops[hop].ingress;
  return shorter;
}

MulticastTree resolve_multicast(const TablesView& view, PortIndex source, Lid mlid) {
  MulticastTree tree;
  tree.source = source;
  tree.stopped_at = source;
  tree.generation = view.generation();
  const PortRecord& port = view.port(source);
  tree.mtu = port.active_mtu;
  tree.is_tapped = port.is_tapped();
  if (!mlid.is_multicast()) {
    return tree;
  }
  Replication replication{view, mlid, tree};
  if (port.is_switch_port()) {
    assert(port.number == PortNumber{});
    replication.relay(source, kNoIndex);
  } else if (!sends_data(port)) {
    tree.outcome = PathOutcome::SourceDown;
    return tree;
  } else if (const auto failure = obstacle(view, port)) {
    tree.outcome = *failure;
    return tree;
  } else {
    replication.cross(source, kNoIndex);
  }
  replication.relay_all();
  tree.outcome = PathOutcome::Delivered;
  tree.stopped_at = kNoPort;
  return tree;
}

DropCounter drop_counter(PathEnd end) {
  switch (end) {
    case PathEnd::DlidMapping:
    case PathEnd::Looping:
      return DropCounter::RcvSwitchRelayErrors;
    case PathEnd::Malformed:
    case PathEnd::Damaged:
      return DropCounter::RcvErrors;
    case PathEnd::Delivered:
    case PathEnd::PortInactive:
    case PathEnd::NeighborMtu:
    case PathEnd::LifetimeLimit:
    case PathEnd::HeadOfQueueLimit:
      break;
  }
  return DropCounter::XmitDiscards;
}

std::string_view name_of(PathOutcome outcome) {
  switch (outcome) {
    case PathOutcome::Delivered:
      return "Delivered";
    case PathOutcome::SourceDown:
      return "the source port is not Active";
    case PathOutcome::NoCable:
      return "a port on the way has no cable";
    case PathOutcome::LinkDown:
      return "a link on the way is down";
    case PathOutcome::NoRoute:
      return "a switch has no forwarding entry for the DLID";
    case PathOutcome::Loop:
      return "the forwarding tables lead in a circle";
    case PathOutcome::NotTheOwner:
      return "the forwarding tables lead to a port that does not own the DLID";
    case PathOutcome::InvalidDlid:
      return "the DLID is not a unicast LID";
  }
  return "reserved";
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
