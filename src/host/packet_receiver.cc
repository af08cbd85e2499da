#include "host/packet_receiver.h"

#include "base/live_bug.h"
#include "base/process_slot.h"
#include "hca/packet_record.h"
#include "host/deferred_events.h"

namespace weft::host {
namespace {

/// Whether the lane leads to the peer of a connected QP, by whichever lane of the pair.
[[nodiscard]] bool is_bound_to(const QpDriverState& qp_state, const Lane& lane) {
  const Lane* const bound = qp_state.lane.load(std::memory_order_relaxed);
  return bound == &lane || (bound != nullptr && bound->peer == lane.peer);
}

}  // namespace

/// A record of another process: copied, validated, and delivered as its addresses say.
[[gnu::always_inline]] inline void PacketReceiver::deliver(Lane& lane, hca::Flow flow,
                                                           ByteSpan record, Instant at,
                                                           TouchedQps& touched_qps) {
  hca::Packet& packet = lane.in(flow).packet;
  if (!hca::read_record(record, packet).empty()) {
    refuse(lane, uabi::RecordFault::MalformedRecord);
    return;
  }
  packet.source_slot = lane.peer.slot;
  const hca::PacketHeader& header = packet.header;
  const bool is_ud = header.opcode == wire::Opcode::UdSendOnly ||
                     header.opcode == wire::Opcode::UdSendOnlyWithImmediate;
  if (is_ud && slot_of(header.extension.deth.src_qp) != lane.peer.slot) {
    refuse(lane, uabi::RecordFault::ForgedQpn);
    return;
  }
  if (header.dlid.is_multicast()) {
    deliver_multicast(lane, packet, at);
    return;
  }
  const FabricMap::LocalPort* const port = lane.arrival(flow, header);
  hca::Hca* const engine = port != nullptr ? hcas_.find(port->hca) : nullptr;
  if (engine == nullptr) {
    refuse(lane, lane.fault(flow));
    return;
  }
  hca::Qp* const qp = engine->handle_packet(port->port, packet, at);
  if (qp == nullptr) {
    refuse(lane, header.dest_qp == kQp0 || header.dest_qp == kQp1 ? uabi::RecordFault::ManagementQpn
                                                                  : uabi::RecordFault::NoSuchQp);
    return;
  }
  auto* const qp_state = static_cast<QpDriverState*>(qp->driver_data);
  if (!is_ud && qp_state != nullptr && !is_bound_to(*qp_state, lane) &&
      !(lane.peer.node == lane.self.node && qp->has_proxy_in(lane.peer.slot))) {
    refuse(lane, uabi::RecordFault::ConnectedElsewhere);  // the QP has dropped it
    return;
  }
  if (qp_state != nullptr) {
    touched_qps.add(*qp_state);
  }
}

/// To the members on each port that the sender's tree reaches, whatever their HCA. The tables say
/// which ports those are, not the sender.
void PacketReceiver::deliver_multicast(Lane& lane, hca::Packet& packet, Instant at) {
  const auto* const arrivals = lane.multicast_arrivals(packet.header);
  if (arrivals == nullptr) {
    refuse(lane, lane.multicast_fault());
    return;
  }
  for (const FabricMap::MulticastArrival& arrival : *arrivals) {
    if (hca::Hca* const engine = hcas_.find(arrival.at.hca)) {
      packet.is_loopback = arrival.is_sender;
      static_cast<void>(engine->handle_packet(arrival.at.port, packet, at));
    }
  }
}

/// Sends what the packets of a batch gave their QPs to send.
void PacketReceiver::resume_qps(hca::Flow flow, const TouchedQps& touched_qps, Instant at) {
  touched_qps.for_each([&](QpDriverState& qp_state) {
    if (flow == hca::Flow::Request) {
      sender_.answer(qp_state, PacketSender::kAnswerBudget);
    } else {
      sender_.transmit(qp_state, at, PacketSender::kAnswerBudget);
      timers_.arm(qp_state);
    }
  });
}

/// Whether the record in front is left to another thread.
bool PacketReceiver::is_left(Lane& lane, ByteSpan record, RecordFilter filter) {
  const bool is_one_sided = station::is_one_sided(record);
  if (filter == RecordFilter::OneSided && !is_one_sided) {
    lane.turns.note_waiting_send();
  }
  return is_one_sided != (filter == RecordFilter::OneSided);
}

/// Takes what lies in one ring, at most a batch, then lets the QPs concerned answer: one ACK for
/// many packets. The caller owns the ring.
[[gnu::flatten]] std::size_t PacketReceiver::drain(Lane& lane, hca::Flow flow,
                                                   RecordFilter filter) {
  if (lane.state() != LaneState::Open) {
    return 0;
  }
  Lane::In& in = lane.in(flow);
  DeferredEvents deferred{flow == hca::Flow::Request};
  TouchedQps touched_qps;
  std::size_t taken = 0;
  // Taking requests measures no time, so that an old reading of the clock will do.
  const Instant at = flow == hca::Flow::Request ? clock_.newest() : clock_.read();
  while (taken < kBatch) {
    const auto front = in.ring.look();
    if (front.state != ring::Consumer<>::State::Record) {
      if (front.state == ring::Consumer<>::State::Corrupt) {
        refuse(lane, uabi::RecordFault::CorruptRing);
      }
      break;
    }
    if (filter != RecordFilter::All && is_left(lane, front.body, filter)) {
      break;
    }
    deliver(lane, flow, front.body, at, touched_qps);
    in.ring.pop();
    ++taken;
  }
  in.publish_next_word();
  if (planted(LiveBug::StoppedResponderCounted)) {
    in.ring.settle();
    static_cast<void>(planted_late(LiveBug::StoppedResponderCounted));
  }
  resume_qps(flow, touched_qps, at);
  in.ring.settle();  // only now: the peer's retry timers do not count before we have answered
  lane.signal_space();
  deferred.stop();
  if (deferred.has_any()) {
    take_earlier_responses(lane);
  }
  return taken;
}

void PacketReceiver::drain_all(Lane& lane) {
  while (drain(lane, hca::Flow::Response, RecordFilter::All) +
             drain(lane, hca::Flow::Request, RecordFilter::All) !=
         0) {
  }
}

void PacketReceiver::take_arrived(const Lane& lane) {
  const std::uint32_t first = lane.number - lane.index;
  for (std::uint32_t index = 0; index < kLanesPerPair; ++index) {
    Lane& each = *lanes_[first + index];
    for (const hca::Flow flow : {hca::Flow::Response, hca::Flow::Request}) {
      const std::lock_guard owner{each.in(flow).owner};
      unsigned batches = 0;
      while (drain(each, flow, RecordFilter::All) != 0 && ++batches < kMostBatches) {
      }
    }
  }
}

/// What the peer answered before it sent the messages that have just come, by whichever lane: a
/// program that hears of a message finds its own earlier request completed. A ring that another
/// thread owns is being taken care of.
void PacketReceiver::take_earlier_responses(const Lane& lane) {
  const std::uint32_t first = lane.number - lane.index;
  for (std::uint32_t index = 0; index < kLanesPerPair; ++index) {
    take_responses(*lanes_[first + index]);
  }
}

/// Counts a refused record of the lane's peer, and tells the daemon now and then.
void PacketReceiver::refuse(Lane& lane, uabi::RecordFault what) {
  if (const auto count = lane.refusals.count(what, os::now()); count && lane.peer != lane.self) {
    daemon_.post(uabi::ReportPeer{.peer = lane.peer, .what = what, .count = *count});
  }
}

}  // namespace weft::host
