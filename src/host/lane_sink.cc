#include "host/lane_sink.h"

#include <mutex>

#include "hca/wire_length.h"
#include "os/clock.h"

namespace weft::host {

bool LaneSink::send_multicast(const hca::PacketHeader& header, std::span<const ByteSpan> gather) {
  release_lane();
  return context_->multicast.send(header, gather);
}

Lane& LaneSink::lane_of_datagram(const hca::PacketHeader& header) {
  if (!context_->binder.knows_lane(qp_state_, header)) {
    release_lane();
  }
  return context_->binder.lane_of(qp_state_, header);
}

bool LaneSink::send(hca::Flow flow, const hca::PacketHeader& header,
                    std::span<const ByteSpan> gather) {
  Lane* lane = qp_state_.lane.load(std::memory_order_acquire);
  if (!is_allowed(flow, !gather.empty())) {
    if (flow == hca::Flow::Response && lane != nullptr) {
      lane->queue.note_waiting_response();
    }
    return false;
  }
  if (header.dlid.is_multicast()) {
    return send_multicast(header, gather);
  }
  if (lane == nullptr) {
    lane = &lane_of_datagram(header);
  }
  return send_by(*lane, flow, header, gather);
}

/// Where this returns false, the engine calls send(), which has the reason.
[[gnu::flatten]] bool LaneSink::send_fast(hca::Flow flow, const hca::SinglePacket& packet) {
  Lane* const lane = qp_state_.lane.load(std::memory_order_acquire);
  if (lane == nullptr || !is_allowed(flow, !packet.payload.empty())) [[unlikely]] {
    return false;
  }
  hold(*lane, flow);
  if (!lane->send_fast(flow, packet)) [[unlikely]] {
    return false;
  }
  is_rung_ = false;
  urgency_.note(opcode_of(packet));
  has_sent_ = true;
  return true;
}

/// The lane is not held afterwards: a copy takes a while.
Lane::PlacementPath LaneSink::placement_path(Lane* lane, const hca::PacketHeader& request) {
  if (lane == nullptr) {
    return {.way = PlacementWay::NotGranted};
  }
  release_lane();
  const std::lock_guard guard{lane->out_lock(hca::Flow::Request)};
  return lane->find_placement_path(request, *context_->counters.page, context_->counters.lock);
}

hca::PlacementMeans LaneSink::note(PlacementWay way) {
  if (qp_state_.placement_way.load(std::memory_order_relaxed) != way) {
    qp_state_.placement_way.store(way, std::memory_order_relaxed);
  }
  return means_of(way);
}

hca::PlacementMeans LaneSink::may_place(const hca::PlacementTarget& target) {
  Lane* const lane = qp_state_.lane.load(std::memory_order_acquire);
  const Lane::PlacementPath path = placement_path(lane, target.request);
  return note(path.way == PlacementWay::Placed ? lane->placement->find(target, path.generation)
                                               : path.way);
}

hca::PlacementMeans LaneSink::place(const hca::Placement& part) {
  Lane* const lane = qp_state_.lane.load(std::memory_order_acquire);
  const Lane::PlacementPath path = placement_path(lane, part.target.request);
  if (path.way != PlacementWay::Placed) {
    return note(path.way);
  }
  const PlacementWay way = lane->placement->place(part, path.generation);
  if (means_of(way) != hca::PlacementMeans::None) {
    const std::lock_guard guard{lane->out_lock(hca::Flow::Request)};
    path.count(hca::traffic_of(part));
  }
  return note(way);
}

Instant LaneSink::time_after(Instant /*start*/) const { return os::now(); }

bool LaneSink::send_to_proxy(const hca::PacketHeader& header, std::span<const ByteSpan> gather) {
  return send_by(lane_of_datagram(header), hca::Flow::Request, header, gather);
}

inline bool LaneSink::send_by(Lane& lane, hca::Flow flow, const hca::PacketHeader& header,
                              std::span<const ByteSpan> gather) {
  hold(lane, flow);
  const auto send = [&] {
    return lane.send(flow, header, gather, *context_->counters.page, context_->counters.lock);
  };
  SendOutcome outcome = send();
  if (outcome == SendOutcome::NoSpace &&
      context_->progress.shares_cpus.load(std::memory_order_relaxed) && lane.allow_growth(flow)) {
    outcome = send();
  }
  switch (outcome) {
    case SendOutcome::Sent:
      is_rung_ = false;
      urgency_.note(header.opcode);
      has_sent_ = true;
      if (header.packet_count > 1) {
        release_lane();  // copying took a while: others have their turn, and the peer may begin
      }
      return true;
    case SendOutcome::Delayed:
      has_sent_ = has_delayed_ = true;
      return true;
    case SendOutcome::PartlyDelayed:
      has_sent_ = has_delayed_ = has_loss_ = true;
      return true;
    case SendOutcome::Lost:
      has_loss_ = true;
      return true;
    case SendOutcome::NoSpace:
      blocked_ = &lane;
      if (flow == hca::Flow::Response) {
        lane.queue.note_waiting_response();
      }
      return false;
  }
  return false;
}

}  // namespace weft::host
