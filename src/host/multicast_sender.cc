// Multicast packets out: one copy for each process with members on a host that the tree reaches, or
// on our own; it finds out at which of its ports it arrives. Unreliable: a process whose ring is
// full misses it.

#include <algorithm>
#include <array>
#include <mutex>
#include <utility>

#include "fabric/link_crossing.h"
#include "hca/packet_record.h"
#include "hca/wire_length.h"
#include "host/process_impl.h"
#include "os/clock.h"

namespace weft::host {
namespace {

/// Policy: less than it takes to join a group and to tell of it.
constexpr Duration kDaemonPollInterval = Duration::microseconds(10);

/// Policy: more ways to cross a tree in part are counted together, without their ports.
constexpr std::size_t kMaxParts = 128;

/// The tree as far as a packet came. Where an edge lost it, its egress port discards.
[[nodiscard]] fabric::MulticastTree part_of(const MulticastRoute& route) {
  fabric::MulticastTree part = route.tree;
  part.edges.clear();
  for (std::size_t i = 0; i < route.crossings.size(); ++i) {
    const fabric::EdgeCrossing& crossing = route.crossings[i];
    if (crossing.is_crossed()) {
      part.edges.push_back(route.tree.edges[i]);
    } else if (crossing.lost != 0) {
      part.dropped_at.push_back(route.tree.edges[i].egress);
    }
  }
  return part;
}

/// The way to the end of an edge.
[[nodiscard]] fabric::Path path_to(const fabric::MulticastTree& tree, std::uint32_t edge) {
  fabric::Path path;
  path.outcome = fabric::PathUse::Delivered;
  path.end = fabric::PathEnd::Delivered;
  path.source = tree.source;
  path.destination = tree.edges[edge].ingress;
  for (std::uint32_t at = edge; at != fabric::kNoIndex; at = tree.timed[at].parent) {
    path.hops.insert(path.hops.begin(), tree.edges[at]);
  }
  return path;
}

}  // namespace

/// To the processes of the group, and by which edges. Under multicast_lock.
void Process::Impl::find_copies(MulticastRoute& route, Lid mlid) {
  route.copies.clear();
  route.has_lanes = false;
  route.groups_generation = groups.generation();
  const std::vector<uabi::ProcessAddress> members = groups.members(mlid);
  std::map<std::uint32_t, std::vector<std::uint32_t>> nodes;  // and the edges to their ports
  map.ask([&](const fabric::TablesView& view) {
    for (const fabric::PortIndex member : route.tree.members) {
      const auto edge = std::ranges::find(route.tree.edges, member, &fabric::Hop::ingress);
      if (edge != route.tree.edges.end()) {
        nodes[view.port(member).node.value()].push_back(
            static_cast<std::uint32_t>(edge - route.tree.edges.begin()));
      }
    }
    return true;
  });
  nodes[self.node].clear();
  for (const uabi::ProcessAddress& member : members) {
    if (const auto node = nodes.find(member.node); node != nodes.end()) {
      route.copies.push_back({.member = member, .edges = node->second});
    }
  }
}

MulticastRoute& Process::Impl::multicast_route(const hca::PacketHeader& header) {
  MulticastRoute& route = multicast_routes[hca::route_key_of(header)];
  const bool is_old = route.counter == nullptr || route.generation != map.generation();
  if (is_old) {
    route.tree = map.resolve_multicast(self.node, header.slid, header.dlid);
    route.generation = route.tree.generation;
    const std::lock_guard page_guard{counters_lock};
    route.counter = &counters->open(route.tree, header.sl);
    route.parts.clear();
    route.damage.clear();
  }
  if (is_old || route.groups_generation != groups.generation()) {
    find_copies(route, header.dlid);
  }
  return route;
}

/// A packet with faults on its way: each edge is crossed by what came to its begin. What of the
/// tree it came along is counted once, however many copies duplication made. Under multicast_lock.
void Process::Impl::apply_faults(MulticastRoute& route, const hca::PacketHeader& header,
                                 std::uint64_t words) {
  const fabric::FaultSubject subject{.opcode = header.opcode,
                                     .slid = header.slid,
                                     .dlid = header.dlid,
                                     .dest_qp = header.dest_qp,
                                     .psn = header.psn};
  const fabric::MulticastTree& tree = route.tree;
  links.crossing().cross(tree, subject, route.crossings);
  MulticastRoute::Shape shape;
  for (const fabric::EdgeCrossing& crossing : route.crossings) {
    shape.push_back(crossing.is_crossed());
    shape.push_back(crossing.lost != 0);
  }
  const std::lock_guard page_guard{counters_lock};
  const auto known = route.parts.find(shape);
  fabric::PathEntry* part = known != route.parts.end() ? known->second : &counters->overflow();
  if (known == route.parts.end() && route.parts.size() < kMaxParts) {
    part = &counters->open(part_of(route), header.sl);
    route.parts.emplace(std::move(shape), part);
  }
  part->count(1, words);
  for (std::uint32_t edge = 0; edge < route.crossings.size(); ++edge) {
    if (route.crossings[edge].damaged != 0) {
      fabric::PathEntry*& damage = route.damage[edge];
      damage = damage == nullptr ? &counters->open(path_to(tree, edge), header.sl) : damage;
      damage->count_damaged(1);
    }
  }
}

/// To captures of the ports that the packet comes to; there is room. Under multicast_lock.
void Process::Impl::capture_multicast(const MulticastRoute& route, const hca::PacketHeader& header,
                                      std::span<const ByteSpan> gather) {
  std::array<std::byte, hca::kMaxRecordHeaderBytes> encoded;
  const ByteSpan head = ByteSpan{encoded}.first(hca::encode_record_header(header, encoded));
  if (route.tree.faults.empty()) {
    taps.capture_now(route.tree.edges, head, gather);
    return;
  }
  std::vector<fabric::Hop> crossed;
  for (std::size_t i = 0; i < route.crossings.size(); ++i) {
    const fabric::EdgeCrossing& crossing = route.crossings[i];
    if (crossing.is_crossed() || crossing.lost != 0) {
      crossed.push_back(route.tree.edges[i]);
      crossed.back().ingress = crossing.arrived != 0 ? crossed.back().ingress : fabric::kNoPort;
    }
  }
  taps.capture_now(crossed, head, gather);
}

/// When, and how often, it comes by the first of the edges to its node. Under multicast_lock.
void Process::Impl::send_copy(const MulticastRoute& route, const MulticastRoute::Copy& copy,
                              const hca::PacketHeader& header, std::span<const ByteSpan> gather) {
  const bool is_timed = !route.tree.timed.empty() && !copy.edges.empty();
  const fabric::Transit* transit = nullptr;
  fabric::EdgeCrossing crossing{.arrived = 1, .held_back = {}};
  for (const std::uint32_t edge : copy.edges) {
    const bool is_lost = !route.tree.faults.empty() && route.crossings[edge].arrived == 0;
    if (is_timed && !is_lost &&
        (transit == nullptr || route.ends[edge].arrives < transit->arrives)) {
      transit = &route.ends[edge];
      crossing = route.tree.faults.empty() ? crossing : route.crossings[edge];
    }
  }
  if (is_timed && transit == nullptr) {
    return;
  }
  Lane& lane = lanes.lane_to(copy.member, kMulticastQpn, kMulticastQpn);
  const std::lock_guard guard{lane.out_lock(hca::Flow::Request)};
  if (transit != nullptr) {
    for (std::uint32_t i = 0; i < crossing.arrived; ++i) {
      static_cast<void>(lane.delay_copy(header, gather, *transit, crossing.held_back));
    }
  } else if (lane.send_copy(header, gather)) {
    lane.ring_doorbell(false);
    if (lane.is_to_self()) {
      hand_over(lane);
    }
  }
}

/// A lane is made on first use: what is sent first waits for it, and is not lost. Under
/// multicast_lock.
bool Process::Impl::has_lanes(MulticastRoute& route) {
  route.has_lanes =
      route.has_lanes || std::ranges::none_of(route.copies, [&](const MulticastRoute::Copy& copy) {
        return lanes.lane_to(copy.member, kMulticastQpn, kMulticastQpn).state() ==
               LaneState::Opening;
      });
  return route.has_lanes;
}

/// Whether something the daemon has sent, of members perhaps, is not heard yet. Asked once in a
/// while: it is a system call, and who has just joined cannot have told us sooner. Under
/// multicast_lock.
bool Process::Impl::has_daemon_messages(Instant at) {
  if (at - daemon_checked_at < kDaemonPollInterval || connection.is_gone()) {
    return false;
  }
  if (connection.has_record()) {
    return true;
  }
  daemon_checked_at = at;
  return false;
}

/// False: the links are busy, lanes are being made, or there are news to hear first.
bool Process::Impl::send_multicast(const hca::PacketHeader& header,
                                   std::span<const ByteSpan> gather) {
  const std::uint64_t words = hca::packet_length_words(header, total_bytes(gather));
  const std::lock_guard guard{multicast_lock};
  if (has_daemon_messages(os::now())) {
    return false;
  }
  MulticastRoute& route = multicast_route(header);
  const fabric::MulticastTree& tree = route.tree;
  if (!tree.timed.empty() && multicast_departs > os::now() + kAheadOfLink) {
    return false;
  }
  if (!has_lanes(route)) {
    return false;
  }
  const auto cross = [&] {
    if (tree.faults.empty()) {
      route.counter->count(1, words);
    } else {
      apply_faults(route, header, words);
    }
  };
  const std::size_t bytes = TapSet::bytes_for(hca::kMaxRecordHeaderBytes + total_bytes(gather));
  if (!tree.is_tapped) {
    cross();
  } else if (!taps.with_room(tree.edges, bytes, [&] {
               cross();
               capture_multicast(route, header, gather);
             })) {
    route.counter->count(1, words);
    return true;  // the packet is lost rather than unseen
  }
  if (!tree.timed.empty()) {
    links.clocks.reserve(os::now(), words * 4, tree, route.ends);
    for (const fabric::Transit& end : route.ends) {
      multicast_departs = std::max(multicast_departs, end.departs);
    }
  }
  for (const MulticastRoute::Copy& copy : route.copies) {
    send_copy(route, copy, header, gather);
  }
  if (!tree.timed.empty()) {
    schedule_release();
  }
  return true;
}

}  // namespace weft::host
