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
[[nodiscard]] bool is_bound_to(const QpCarrier& carrier, const Lane& lane) {
  const Lane* const bound = carrier.lane.load(std::memory_order_relaxed);
  return bound == &lane || (bound != nullptr && bound->peer == lane.peer);
}

}  // namespace

bool is_one_sided(wire::Opcode opcode) { return kIsOneSided[static_cast<std::uint8_t>(opcode)]; }

bool has_one_sided_request(Lane::In& requests) {
  const auto front = requests.ring.look();
  return front.state == ring::Consumer<>::State::Record && is_one_sided(front.body);
}

class Process::Impl::Touched {
 public:
  void add(QpCarrier& carrier) {
    if (count_ == 0 || (carriers_[count_ - 1] != &carrier && !has(carrier))) {
      carriers_[count_++] = &carrier;
    }
  }
  template <class Visit>
  void for_each(Visit visit) const {
    for (std::size_t i = 0; i < count_; ++i) {
      visit(*carriers_[i]);
    }
  }

 private:
  [[nodiscard]] bool has(const QpCarrier& carrier) const {
    const std::span known{carriers_.data(), count_};
    return std::ranges::find(known, &carrier) != known.end();
  }

  std::array<QpCarrier*, kBatch> carriers_;
  std::size_t count_{};
};

/// A record of another process: copied, checked, and delivered where its addresses say.
[[gnu::always_inline]] inline void Process::Impl::deliver(Lane& lane, hca::Flow flow,
                                                          ByteSpan record, Instant at,
                                                          Touched& touched) {
  hca::Packet& packet = lane.in(flow).packet;
  if (!hca::read_record(record, packet).empty()) {
    refuse(lane, uabi::Misbehaviour::MalformedRecord);
    return;
  }
  packet.source_slot = lane.peer.slot;
  const hca::PacketHeader& header = packet.header;
  const bool is_ud = header.opcode == wire::Opcode::UdSendOnly ||
                     header.opcode == wire::Opcode::UdSendOnlyWithImmediate;
  if (is_ud && slot_of(header.extension.deth.src_qp) != lane.peer.slot) {
    refuse(lane, uabi::Misbehaviour::ForgedQpn);
    return;
  }
  if (header.dlid.is_multicast()) {
    deliver_multicast(lane, packet, at);
    return;
  }
  const FabricMap::LocalPort* const port = lane.arrival(flow, header);
  if (port == nullptr || port->hca >= slots.size()) {
    refuse(lane, lane.lie(flow));
    return;
  }
  hca::Qp* const qp = slots[port->hca]->engine->handle_packet(port->port, packet, at);
  if (qp == nullptr) {
    refuse(lane, header.dest_qp == kQp0 || header.dest_qp == kQp1
                     ? uabi::Misbehaviour::ManagementQpn
                     : uabi::Misbehaviour::NobodyThere);
    return;
  }
  auto* const carrier = static_cast<QpCarrier*>(qp->carrier);
  if (!is_ud && carrier != nullptr && !is_bound_to(*carrier, lane) &&
      !(lane.peer.node == self.node && qp->has_deputy_in(lane.peer.slot))) {
    refuse(lane, uabi::Misbehaviour::OthersConnection);  // the QP has dropped it
    return;
  }
  if (carrier != nullptr) {
    touched.add(*carrier);
  }
}

/// What the packets of a batch have given their QPs to do.
void Process::Impl::go_on(hca::Flow flow, const Touched& touched, Instant at) {
  touched.for_each([&](QpCarrier& carrier) {
    if (flow == hca::Flow::Request) {
      answer(carrier, kAnswerBudget);
    } else {
      carry(carrier, at, kAnswerBudget);
      arm(carrier);
    }
  });
}

/// Whether what lies in front is left to who looks for it.
[[nodiscard]] bool Process::Impl::is_left(Lane& lane, ByteSpan record, bool only_one_sided,
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
  Touched touched;
  std::size_t taken = 0;
  // Who takes requests measures no time.
  const Instant at = flow == hca::Flow::Request ? clock.newest() : clock.read();
  while (taken < kBatch) {
    const auto front = in.ring.look();
    if (front.state != ring::Consumer<>::State::Record) {
      if (front.state == ring::Consumer<>::State::Corrupt) {
        refuse(lane, uabi::Misbehaviour::CorruptRing);
      }
      break;
    }
    if ((only_one_sided || leave_one_sided) &&
        is_left(lane, front.body, only_one_sided, leave_one_sided)) {
      break;
    }
    deliver(lane, flow, front.body, at, touched);
    in.ring.pop();
    ++taken;
  }
  in.show_next_word();
  if (planted(LiveBug::StoppedAnswererCounted)) {
    in.ring.settle();
    static_cast<void>(planted_late(LiveBug::StoppedAnswererCounted));
  }
  go_on(flow, touched, at);
  in.ring.settle();  // who is stopped before has not read: the peer's retry timers do not count
  lane.tell_room();
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
