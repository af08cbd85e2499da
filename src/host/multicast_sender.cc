#include "host/multicast_sender.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "fabric/link_crossing.h"
#include "hca/packet_record.h"
#include "hca/wire_length.h"
#include "os/clock.h"

namespace weft::host {
namespace {

/// How often the daemon's socket is asked at most: less than it takes to join a group and to tell
/// others of it. Policy.
constexpr Duration kDaemonPollInterval = Duration::microseconds(10);

/// Further ways to cross a tree in part are counted together, without their ports; policy.
constexpr std::size_t kMaxParts = 128;

}  // namespace

/// Whether the daemon has sent something that is not handled yet, of new members perhaps. Asked
/// rarely, since it is a system call: a member that has just joined cannot have told us sooner.
bool MulticastSender::has_daemon_messages(Instant at) {
  if (at - daemon_checked_at_ < kDaemonPollInterval || parts_.daemon.is_gone()) {
    return false;
  }
  if (parts_.daemon.has_record()) {
    return true;
  }
  daemon_checked_at_ = at;
  return false;
}

void MulticastSender::find_copies(Route& route, Lid mlid) {
  route.has_lanes = false;
  route.groups_generation = parts_.groups.generation();
  const std::vector<uabi::ProcessAddress> members = parts_.groups.members(mlid);
  parts_.map.ask([&](const fabric::TablesView& view) {
    route.find_copies(view, members, parts_.daemon.self().node);
  });
}

MulticastSender::Route& MulticastSender::route_of(const hca::PacketHeader& header) {
  Route& route = routes_[hca::route_key_of(header)];
  const bool is_old = route.counter == nullptr || route.generation != parts_.map.generation();
  if (is_old) {
    route.tree = parts_.map.resolve_multicast(parts_.daemon.self().node, header.slid, header.dlid,
                                              header.sl);
    route.generation = route.tree.generation;
    const std::lock_guard page_guard{parts_.counters.lock};
    route.counter = &parts_.counters.page->open(route.tree, header.sl);
    route.parts.clear();
    route.damage.clear();
  }
  if (is_old || route.groups_generation != parts_.groups.generation()) {
    find_copies(route, header.dlid);
  }
  return route;
}

/// Applies the rules of faults to a packet: each edge is crossed by what came to its begin. The
/// part of the tree that it crossed counts once, however many duplicates rules made.
void MulticastSender::apply_faults(Route& route, const hca::PacketHeader& header,
                                   std::uint64_t words) {
  const fabric::FaultSubject subject{.opcode = header.opcode,
                                     .slid = header.slid,
                                     .dlid = header.dlid,
                                     .dest_qp = header.dest_qp,
                                     .psn = header.psn};
  parts_.links.crossing().cross(route.tree, subject, route.crossings);
  Route::Shape shape = route.shape();
  const std::lock_guard page_guard{parts_.counters.lock};
  fabric::CounterPage& page = *parts_.counters.page;
  const auto known = route.parts.find(shape);
  fabric::PathEntry* part = known != route.parts.end() ? known->second : &page.overflow();
  if (known == route.parts.end() && route.parts.size() < kMaxParts) {
    part = &page.open(route.crossed_part(), header.sl);
    route.parts.emplace(std::move(shape), part);
  }
  part->count(1, words);
  for (std::uint32_t edge = 0; edge < route.crossings.size(); ++edge) {
    if (route.crossings[edge].damaged != 0) {
      fabric::PathEntry*& damage = route.damage[edge];
      damage = damage == nullptr ? &page.open(route.path_to(edge), header.sl) : damage;
      damage->count_damaged(1);
    }
  }
}

/// To the captures of the ports that the packet passes; they have room.
void MulticastSender::capture(const Route& route, const hca::PacketHeader& header,
                              std::span<const ByteSpan> gather) {
  std::array<std::byte, hca::kMaxRecordHeaderBytes> encoded;
  const ByteSpan head = ByteSpan{encoded}.first(hca::encode_record_header(header, encoded));
  if (route.has_faults()) {
    parts_.taps.capture_now(route.captured_hops(), head, gather);
  } else {
    parts_.taps.capture_now(route.tree.edges, head, gather);
  }
}

/// False: a capture has no room, and the packet is lost rather than unseen.
bool MulticastSender::count_and_capture(Route& route, const hca::PacketHeader& header,
                                        std::span<const ByteSpan> gather, std::uint64_t words) {
  const auto cross = [&] {
    if (route.has_faults()) {
      apply_faults(route, header, words);
    } else {
      route.counter->count(1, words);
    }
  };
  if (!route.tree.is_tapped) {
    cross();
    return true;
  }
  const std::size_t bytes = TapSet::bytes_for(hca::kMaxRecordHeaderBytes + total_bytes(gather));
  const bool is_captured = parts_.taps.with_room(route.tree.edges, bytes, [&] {
    cross();
    capture(route, header, gather);
  });
  if (!is_captured) {
    route.counter->count(1, words);
  }
  return is_captured;
}

void MulticastSender::send_copy(const Route& route, const station::MulticastCopy& copy,
                                const hca::PacketHeader& header, std::span<const ByteSpan> gather) {
  const auto delivery = route.delivery_of(copy);
  if (!delivery) {
    return;
  }
  Lane& lane = parts_.lanes.lane_to(copy.member, kMulticastQpn, kMulticastQpn);
  const std::lock_guard guard{lane.out_lock(hca::Flow::Request)};
  if (delivery->transit != nullptr) {
    for (std::uint32_t i = 0; i < delivery->copies; ++i) {
      static_cast<void>(lane.delay_copy(header, gather, *delivery->transit, delivery->held_back));
    }
  } else if (lane.send_copy(header, gather)) {
    lane.ring_doorbell(false);
    if (lane.is_to_self()) {
      parts_.sleeper.hand_over(lane.number);
    }
  }
}

/// A lane is opened on first use: what is sent first waits for that, and is not lost.
bool MulticastSender::has_lanes(Route& route) {
  route.has_lanes =
      route.has_lanes ||
      std::ranges::none_of(route.copies, [&](const station::MulticastCopy& copy) {
        return parts_.lanes.lane_to(copy.member, kMulticastQpn, kMulticastQpn).state() ==
               LaneState::Opening;
      });
  return route.has_lanes;
}

bool MulticastSender::send(const hca::PacketHeader& header, std::span<const ByteSpan> gather) {
  const std::uint64_t words = hca::packet_length_words(header, total_bytes(gather));
  const std::lock_guard guard{lock_};
  if (has_daemon_messages(os::now())) {
    return false;
  }
  Route& route = route_of(header);
  if (route.takes_time() && departs_ > os::now() + station::kAheadOfLink) {
    return false;
  }
  if (!has_lanes(route)) {
    return false;
  }
  if (!count_and_capture(route, header, gather, words)) {
    return true;
  }
  if (route.takes_time()) {
    parts_.links.clocks.reserve(os::now(), words * 4, route.tree, route.ends);
    for (const fabric::Transit& end : route.ends) {
      departs_ = std::max(departs_, end.departs);
    }
  }
  for (const station::MulticastCopy& copy : route.copies) {
    send_copy(route, copy, header, gather);
  }
  if (route.takes_time()) {
    parts_.delivery.schedule_release();
  }
  return true;
}

}  // namespace weft::host
