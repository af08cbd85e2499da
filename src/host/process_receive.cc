// Packets in: from a ring to the QP that they are for.

#include <algorithm>
#include <array>
#include <mutex>

#include "base/process_slot.h"
#include "hca/packet_record.h"
#include "host/process_impl.h"

namespace weft::host {
namespace {

/// Records of one ring before the others have their turn; policy.
constexpr std::size_t kBatch = 32;

[[nodiscard]] bool is_one_sided(const wire::OpcodeInfo& info) {
  switch (info.operation) {
    case wire::Operation::RdmaWrite:
      return !info.headers.has(wire::ExtensionHeader::Immediate);
    case wire::Operation::RdmaReadRequest:
    case wire::Operation::CompareSwap:
    case wire::Operation::FetchAdd:
    case wire::Operation::AtomicWrite:
    case wire::Operation::Flush:
      return true;
    case wire::Operation::Send:
    case wire::Operation::RdmaReadResponse:
    case wire::Operation::Acknowledge:
    case wire::Operation::AtomicAcknowledge:
    case wire::Operation::CongestionNotification:
      return false;
  }
  return false;
}

/// By opcode: looked up for every packet.
const std::array<bool, 256> kIsOneSided = [] {
  std::array<bool, 256> rows{};
  for (const wire::OpcodeInfo& info : wire::opcode_table()) {
    rows[static_cast<std::uint8_t>(info.opcode)] = is_one_sided(info);
  }
  return rows;
}();

/// The opcode is the record's first byte; a record that lies about it is refused when it is
/// decoded.
[[nodiscard]] bool is_one_sided(ByteSpan record) {
  return !record.empty() &&
         host::is_one_sided(static_cast<wire::Opcode>(std::to_integer<std::uint8_t>(record[0])));
}

/// The peer of a connection, by whatever lane.
[[nodiscard]] bool is_bound_to(const QpDriverState& qp_state, const Lane& lane) {
  const Lane* const bound = qp_state.lane.load(std::memory_order_relaxed);
  return bound == &lane || (bound != nullptr && bound->peer == lane.peer);
}

}  // namespace

bool is_one_sided(wire::Opcode opcode) { return kIsOneSided[static_cast<std::uint8_t>(opcode)]; }

bool has_one_sided_request(Lane::In& requests) {
  const auto front = requests.ring.look();
  return front.state == ring::Consumer<>::State::Record && is_one_sided(front.body);
}

class Process::Impl::TouchedQps {
 public:
  void add(QpDriverState& qp_state) {
    if (count_ == 0 || (qp_states_[count_ - 1] != &qp_state && !has(qp_state))) {
      qp_states_[count_++] = &qp_state;
    }
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < count_; ++i) {
      visit(*qp_states_[i]);
    }
  }

 private:
  [[nodiscard]] bool has(const QpDriverState& qp_state) const {
    const std::span known{qp_states_.data(), count_};
    return std::ranges::find(known, &qp_state) != known.end();
  }

  std::array<QpDriverState*, kBatch> qp_states_;
  std::size_t count_{};
};

/// A record of another process: copied, checked, and delivered where its addresses say.
[[gnu::always_inline]] inline void Process::Impl::deliver(Lane& lane, hca::Flow flow,
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
  if (port == nullptr || port->hca >= slots.size()) {
    refuse(lane, lane.fault(flow));
    return;
  }
  hca::Qp* const qp = slots[port->hca]->engine->handle_packet(port->port, packet, at);
  if (qp == nullptr) {
    refuse(lane, header.dest_qp == kQp0 || header.dest_qp == kQp1 ? uabi::RecordFault::ManagementQpn
                                                                  : uabi::RecordFault::NoSuchQp);
    return;
  }
  auto* const qp_state = static_cast<QpDriverState*>(qp->driver_data);
  if (!is_ud && qp_state != nullptr && !is_bound_to(*qp_state, lane) &&
      !(lane.peer.node == self.node && qp->has_proxy_in(lane.peer.slot))) {
    refuse(lane, uabi::RecordFault::ConnectedElsewhere);  // the QP has dropped it
    return;
  }
  if (qp_state != nullptr) {
    touched_qps.add(*qp_state);
  }
}

/// What the packets of a batch have given their QPs to do.
void Process::Impl::resume_qps(hca::Flow flow, const TouchedQps& touched_qps, Instant at) {
  touched_qps.for_each([&](QpDriverState& qp_state) {
    if (flow == hca::Flow::Request) {
      answer(qp_state, kAnswerBudget);
    } else {
      transmit_qp(qp_state, at, kAnswerBudget);
      arm(qp_state);
    }
  });
}

/// Whether what lies in front is left to who looks for it.
[[nodiscard]] bool Process::Impl::is_left_to_application(Lane& lane, ByteSpan record,
                                                         bool only_one_sided,
                                                         bool leave_one_sided) {
  const bool one_sided = is_one_sided(record);
  if (only_one_sided && !one_sided && !lane.turns.sends_wait.load(std::memory_order_relaxed)) {
    lane.turns.sends_wait.store(true, std::memory_order_relaxed);
  }
  return one_sided ? leave_one_sided : only_one_sided;
}

/// Takes what lies in one ring, at most a batch, then lets the QPs concerned answer: one ACK for
/// many packets. The caller owns the ring.
[[gnu::flatten]] std::size_t Process::Impl::drain(Lane& lane, hca::Flow flow, bool only_one_sided,
                                                  bool leave_one_sided) {
  if (lane.state() != LaneState::Open) {
    return 0;
  }
  Lane::In& in = lane.in(flow);
  DeferredEvents deferred{flow == hca::Flow::Request};
  TouchedQps touched_qps;
  std::size_t taken = 0;
  // Who takes requests measures no time.
  const Instant at = flow == hca::Flow::Request ? clock.newest() : clock.read();
  while (taken < kBatch) {
    const auto front = in.ring.look();
    if (front.state != ring::Consumer<>::State::Record) {
      if (front.state == ring::Consumer<>::State::Corrupt) {
        refuse(lane, uabi::RecordFault::CorruptRing);
      }
      break;
    }
    if ((only_one_sided || leave_one_sided) &&
        is_left_to_application(lane, front.body, only_one_sided, leave_one_sided)) {
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
  in.ring.settle();  // who is stopped before has not read: the peer's retry timers do not count
  lane.signal_space();
  deferred.stop();
  if (deferred.has_any()) {
    take_earlier_responses(lane);
  }
  return taken;
}

/// What the peer answered before it sent what has just come, by whichever lane: a program that
/// learns of the latter finds the former completed. A ring that another thread has is being seen
/// to.
void Process::Impl::take_earlier_responses(const Lane& lane) {
  const std::uint32_t first = lane.number - lane.index;
  for (std::uint32_t index = 0; index < kLanesPerPair; ++index) {
    take_responses(*lanes[first + index]);
  }
}

}  // namespace weft::host
