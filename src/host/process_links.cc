// Packets under way: when they arrive, and what a process does about them before it ends
// (DESIGN.md, decision 8).

#include <sched.h>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "hca/wire_length.h"
#include "host/clock.h"
#include "host/process_impl.h"

namespace weft::host {
namespace {

/// Policy: how long the end of a program waits for what it has sent to arrive. More than the
/// longest delay of a link; a peer that is stopped may miss it.
constexpr Duration kLastPatience = Duration::seconds(2);

}  // namespace

bool Process::Impl::release_arrived() {
  bool has_released = false;
  const Instant at = now();
  while (LaneDelay* const delay = links.due.take_due(at)) {
    Lane& lane = delay->lane;
    const bool has_one = lane.release(*delay, at);
    if (has_one && lane.is_to_self()) {
      watch(lane);
      wake_thread();
    }
    has_released = has_released || has_one;
  }
  return has_released;
}

bool Process::Impl::release_blocked(Instant at) {
  bool has_released = false;
  const std::size_t count = lane_count.load(std::memory_order_acquire);
  for (std::size_t i = 0; i < count; ++i) {
    has_released = lanes[i]->release_blocked(at) || has_released;
  }
  return has_released;
}

void Process::Impl::mind_kept() {
  if (links.due.earliest().since_start().nanoseconds() <
      thread_wakes_at_ns.load(std::memory_order_seq_cst)) {
    wake_thread();
  }
}

void Process::Impl::send_multicast_copy(const uabi::ProcessAddress& member,
                                        const hca::PacketHeader& header,
                                        std::span<const ByteSpan> gather,
                                        const fabric::Transit* transit) {
  Lane& lane = lane_to(member, kMulticastQpn, kMulticastQpn);
  const std::lock_guard guard{lane.out_lock(hca::Flow::Request)};
  if (transit != nullptr) {
    static_cast<void>(lane.keep_copy(header, gather, *transit));
  } else if (lane.send_copy(header, gather)) {
    lane.ring_doorbell(false);
    if (lane.is_to_self()) {
      watch(lane);
      wake_thread();
    }
  }
}

/// To each process of the group on a node that the tree reaches, when the first of its ports is.
void Process::Impl::send_multicast_copies(const hca::PacketHeader& header,
                                          std::span<const ByteSpan> gather,
                                          const fabric::MulticastTree& tree) {
  const std::size_t payload_bytes = total_bytes(gather);
  std::vector<fabric::Transit> ends;
  if (!tree.timed.empty()) {
    ends = links.clocks.reserve(now(), hca::packet_length_words(header, payload_bytes) * 4, tree);
    const std::lock_guard guard{multicast_lock};
    for (const fabric::Transit& end : ends) {
      multicast_departs = std::max(multicast_departs, end.departs);
    }
  }
  std::map<std::uint32_t, const fabric::Transit*> nodes;  // none: at once
  map.ask([&](const fabric::TablesView& view) {
    for (const fabric::PortIndex member : tree.members) {
      const auto edge = std::ranges::find(tree.edges, member, &fabric::Hop::ingress);
      const fabric::Transit* const end =
          ends.empty() || edge == tree.edges.end()
              ? nullptr
              : &ends[static_cast<std::size_t>(edge - tree.edges.begin())];
      const auto [known, is_new] = nodes.try_emplace(view.port(member).node.value(), end);
      if (!is_new && end != nullptr && known->second != nullptr &&
          end->arrives < known->second->arrives) {
        known->second = end;
      }
    }
    return true;
  });
  nodes[self.node] = nullptr;
  std::vector<uabi::ProcessAddress> members;
  {
    const std::lock_guard guard{lanes_lock};
    if (const auto group = groups.find(header.dlid); group != groups.end()) {
      members = group->second;
    }
  }
  for (const uabi::ProcessAddress& member : members) {
    if (const auto node = nodes.find(member.node); node != nodes.end()) {
      send_multicast_copy(member, header, gather, node->second);
    }
  }
  if (!ends.empty()) {
    mind_kept();
  }
}

/// An acknowledgement or a datagram that is under way does not vanish because its sender ends.
void Process::Impl::finish_sending() {
  const Instant deadline = now() + kLastPatience;
  while (links.has_any() && now() < deadline) {
    if (!release_arrived()) {
      release_blocked(now());
      sched_yield();
    }
  }
}

}  // namespace weft::host
