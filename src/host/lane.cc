#include "host/lane.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "base/live_bug.h"
#include "hca/packet_record.h"
#include "hca/wire_length.h"
#include "os/clock.h"
#include "os/futex.h"

namespace weft::host {
Lane::Lane(std::uint32_t lane_number, std::uint32_t lane_index, uabi::ProcessAddress self_address,
           uabi::ProcessAddress peer_address, const FabricMap& map, TapSet& taps, LiveLinks& links,
           std::atomic<std::uint32_t>& waiting, PeerPlacement* peer_placement)
    : number(lane_number),
      index(lane_index),
      self(self_address),
      peer(peer_address),
      placement(peer_placement),
      queue(waiting),
      map_(map),
      taps_(taps),
      links_(links) {}

void Lane::take_ends(const ring::LaneEnds& out, const ring::LaneEnds& in) {
  outs_[0].ring = out.request_out;
  outs_[1].ring = out.response_out;
  ins_[0].ring = in.request_in;
  ins_[1].ring = in.response_in;
  ins_[0].publish_next_word();
  ins_[1].publish_next_word();
}

void Lane::open(const PairMemory& memory, ring::LaneSide side) {
  // Threads that wait for this lane poll it already.
  const std::scoped_lock guard{outs_[0].lock, outs_[1].lock, queue.lock(), ins_[0].owner,
                               ins_[1].owner};
  peer_attention_ = &memory.attention();
  own_side_.store(side == ring::LaneSide::A ? 0 : 1, std::memory_order_relaxed);
  LaneHead& head = lane_head(memory.lanes(), index);
  head.doorbell[own_side()].value.store(number, std::memory_order_seq_cst);  // before any sleep
  head_.store(&head, std::memory_order_release);                             // after own_side_
  const auto ends = ring::lane_ends(lane_rings(memory.lanes(), index), kLaneShape, side);
  take_ends(ends, ends);
  state_.store(LaneState::Open, std::memory_order_release);
}

void Lane::open_to_self(const PairMemory& memory) {
  const MutableByteSpan rings = lane_rings(memory.lanes(), index);
  take_ends(ring::lane_ends(rings, kLaneShape, ring::LaneSide::A),
            ring::lane_ends(rings, kLaneShape, ring::LaneSide::B));
  state_.store(LaneState::Open, std::memory_order_release);
}

void Lane::close(Lane& replacement) {
  const std::scoped_lock guard{outs_[0].lock, outs_[1].lock, queue.lock(),
                               replacement.queue.lock()};
  state_.store(LaneState::Dead, std::memory_order_release);
  died_at_ns_.store(os::now().since_start().nanoseconds(), std::memory_order_relaxed);
  std::ranges::for_each(outs_, [this](Out& out) {
    out.fast_path = {};
    drop_delayed(out);
  });
  queue.move_all_to(replacement.queue);
}

bool Lane::try_reopen() {
  const std::int64_t dead_ns =
      os::now().since_start().nanoseconds() - died_at_ns_.load(std::memory_order_relaxed);
  LaneState dead = LaneState::Dead;
  return dead_ns > kReopenAfter.nanoseconds() &&
         state_.compare_exchange_strong(dead, LaneState::Opening);
}

Route& Lane::route(Out& out, const hca::PacketHeader& header, fabric::CounterPage& page,
                   PolicyLock& page_lock) {
  Route* const newest = out.newest_route;
  return newest != nullptr && newest->route_key == hca::route_key_of(header) &&
                 newest->generation == map_.generation()
             ? *newest
             : find_route(out, header, page, page_lock);
}

Route& Lane::find_route(Out& out, const hca::PacketHeader& header, fabric::CounterPage& page,
                        PolicyLock& page_lock) {
  const std::uint64_t generation = map_.generation();
  const std::uint64_t route_key = hca::route_key_of(header);
  const auto found = std::ranges::find(out.routes, route_key, &Route::route_key);
  if (found == out.routes.end()) {
    out.routes.push_back(std::make_unique<Route>());
    out.newest_route = out.routes.back().get();
    out.newest_route->route_key = route_key;
  } else {
    out.newest_route = found->get();
  }
  Route& route = *out.newest_route;
  if (route.generation != generation) {
    fabric::Path path = map_.resolve(self.node, header.slid, header.dlid, header.sl);
    const bool same_route = route.counter != nullptr && path.outcome == route.path.outcome &&
                            path.hops == route.path.hops &&
                            path.stopped_at == route.path.stopped_at;
    if (!same_route) {
      const std::lock_guard guard{page_lock};
      route.counter = &page.open(path, header.sl);
      route.losses.clear();
    }
    route.path = std::move(path);
    route.generation = generation;
    open_losses(route, header.sl, page, page_lock);
    route.is_timed = takes_time(route);
    if (route.path.rate_mbps != 0) {
      max_train_bytes_.store(
          std::min(max_train_bytes(), station::longest_train(route.path.rate_mbps)),
          std::memory_order_relaxed);
    }
  }
  return route;
}

/// A full ring holds a packet for at most the head-of-queue lifetime (docs/ARCHITECTURE.md,
/// decision 8). Reliable connections wait longer: the peer is alive and will read (decision 7).
bool Lane::may_discard(Instant& full_since, wire::Opcode opcode) const {
  const Instant at = os::now();
  if (full_since == Instant::never()) {
    full_since = at;
  }
  const wire::OpcodeInfo* const info = wire::opcode_info(opcode);
  return info != nullptr && info->transport != wire::Transport::Rc &&
         info->transport != wire::Transport::Xrc &&
         at - full_since > links_.time_scale.apply(kHeadOfQueueLifetime);
}

/// Writes the whole record without committing it; empty if there is no room.
inline MutableByteSpan Lane::write(ring::Producer<>& out, const hca::PacketHeader& header,
                                   std::span<const ByteSpan> gather, std::size_t payload_bytes) {
  const hca::RecordHeader head{header};
  const MutableByteSpan record = out.reserve(head.bytes() + payload_bytes);
  if (!record.empty()) {
    head.write(record.data(), gather);
  }
  return record;
}

/// Handles a packet that cannot enter its lane's ring: for lack of a path, of a peer process, or of
/// the daemon's response.
SendOutcome Lane::drop_unroutable(LaneState state, const Route& route,
                                  const hca::PacketHeader& header, std::size_t payload_bytes) {
  if (route.path.is_delivered() && state == LaneState::Opening) {
    return SendOutcome::NoSpace;
  }
  // Without a process, the receiving HCA no longer has the QP: the packet crosses the fabric and is
  // dropped there.
  route.counter->count(header.packet_count, hca::packet_length_words(header, payload_bytes));
  return SendOutcome::Lost;
}

SendOutcome Lane::handle_full_ring(Out& out, const Route& route, const hca::PacketHeader& header,
                                   std::size_t payload_bytes) {
  out.fast_path = {};
  if (!may_discard(out.full_since, header.opcode)) {
    return SendOutcome::NoSpace;
  }
  route.counter->count_discarded(header.packet_count,
                                 hca::packet_length_words(header, payload_bytes));
  return SendOutcome::Lost;
}

SendOutcome Lane::send_on(Out& out, const hca::PacketHeader& header,
                          std::span<const ByteSpan> gather, fabric::CounterPage& page,
                          PolicyLock& page_lock) {
  const std::size_t payload_bytes = total_bytes(gather);
  Route& route = this->route(out, header, page, page_lock);
  const LaneState state = this->state();
  if (state != LaneState::Open || !route.path.is_delivered()) {
    return drop_unroutable(state, route, header, payload_bytes);
  }
  if (route.is_timed) [[unlikely]] {
    route.is_timed = takes_time(route);
    if (route.is_timed) {
      return delay_packet(out, route, header, gather);
    }
  }
  const MutableByteSpan record = write(out.ring, header, gather, payload_bytes);
  if (record.empty()) {
    return handle_full_ring(out, route, header, payload_bytes);
  }
  if (route.path.is_tapped &&
      !taps_.show(route.path.hops, record.first(record.size() - payload_bytes), gather)) {
    return SendOutcome::NoSpace;
  }
  if (out.full_since != Instant::never()) {
    count_wait(out, route, os::now());
  }
  out.ring.commit();
  route.counter->count(header.packet_count, hca::packet_length_words(header, payload_bytes));
  if (!route.path.is_tapped) {
    out.fast_path = {
        .route_key = route.route_key, .generation = route.generation, .counter = route.counter};
  }
  return SendOutcome::Sent;
}

bool Lane::send_copy(const hca::PacketHeader& header, std::span<const ByteSpan> gather) {
  if (state() != LaneState::Open ||
      write(outs_[0].ring, header, gather, total_bytes(gather)).empty()) {
    return false;
  }
  outs_[0].ring.commit();
  return true;
}

void Lane::ring_doorbell(bool is_urgent) {
  if (LaneHead* const head = this->head()) {
    ring::ring_doorbell<os::KernelFutex>(head->attention[peer_side()],
                                         head->doorbell[peer_side()].value, *peer_attention_,
                                         is_urgent);
  }
}

bool Lane::is_drained() {
  const std::lock_guard guard{outs_[0].lock};
  return state() == LaneState::Dead ||
         (state() == LaneState::Open && outs_[0].delayed == 0 && outs_[0].ring.is_drained());
}

bool Lane::may_have_lost(QpDriverState& qp_state) {
  const LaneHead* const head = this->head();
  const std::uint32_t answers =
      head != nullptr ? head->lost_answers[peer_side()].value.load(std::memory_order_relaxed) : 0;
  return std::exchange(qp_state.seen_lost_answers, answers) != answers || is_drained();
}

void Lane::request_space() {
  if (LaneHead* const head = this->head()) {
    head->wants_space[own_side()].value.store(1, std::memory_order_seq_cst);
  }
}

void Lane::signal_space() {
  if (planted(LiveBug::SpaceNotSignaled)) {
    return;
  }
  if (space_is_wanted() &&
      head()->wants_space[peer_side()].value.exchange(0, std::memory_order_relaxed) != 0) {
    ring::wake<os::KernelFutex>(*peer_attention_);
  }
}

void Lane::announce_sleep(ring::Sleep sleep) {
  if (LaneHead* const head = this->head()) {
    ring::announce_sleep(head->attention[own_side()], sleep);
  }
}

ring::Attention* Lane::own_attention() const {
  LaneHead* const head = this->head();
  return head != nullptr ? &head->attention[own_side()] : nullptr;
}

bool Lane::has_doorbell() const {
  const LaneHead* const head = this->head();
  return head == nullptr ||
         head->attention[own_side()].sleeping.load(std::memory_order_relaxed) == 0;
}

/// False if addresses and tables are the same as at the last check, whose result still holds.
bool Lane::update_addresses(Addresses& known, const hca::PacketHeader& header) const {
  const std::uint64_t generation = map_.generation();
  if (known.slid == header.slid && known.dlid == header.dlid && known.generation == generation &&
      known.pkey == header.pkey && (!header.has_grh || known.sgid == header.grh.sgid)) {
    return false;
  }
  known.slid = header.slid;
  known.dlid = header.dlid;
  known.pkey = header.pkey;
  known.sgid = header.has_grh ? std::optional{header.grh.sgid} : std::nullopt;
  known.generation = generation;
  return true;
}

std::optional<uabi::RecordFault> Lane::validate_addresses(const hca::PacketHeader& header) const {
  return map_.validate_source(peer.node, header.slid, header.pkey,
                              header.has_grh ? &header.grh.sgid : nullptr);
}

const FabricMap::LocalPort* Lane::arrival(hca::Flow flow, const hca::PacketHeader& header) {
  Arrival& arrival = arrivals_[index_of(flow)];
  if (update_addresses(arrival, header)) {
    const auto fault = validate_addresses(header);
    arrival.port = fault ? std::nullopt : map_.local_port(self.node, header.dlid);
    arrival.fault = fault.value_or(uabi::RecordFault::WrongDestination);
  }
  return arrival.port ? &*arrival.port : nullptr;
}

const std::vector<FabricMap::MulticastArrival>* Lane::multicast_arrivals(
    const hca::PacketHeader& header) {
  if (header.dest_qp != kMulticastQpn) {
    multicast_arrival_ = {};
    multicast_arrival_.fault = uabi::RecordFault::WrongDestination;
    return nullptr;
  }
  if (update_addresses(multicast_arrival_, header)) {
    const auto fault = validate_addresses(header);
    multicast_arrival_.ports.reset();
    multicast_arrival_.fault = fault.value_or(uabi::RecordFault::WrongDestination);
    if (!fault) {
      multicast_arrival_.ports =
          map_.multicast_arrivals(self.node, peer.node, header.slid, header.dlid);
    }
  }
  return multicast_arrival_.ports ? &*multicast_arrival_.ports : nullptr;
}

}  // namespace weft::host
