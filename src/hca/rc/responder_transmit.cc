#include <algorithm>
#include <array>

#include "base/assert.h"
#include "hca/packet_record.h"
#include "hca/rc/responder.h"
#include "wire/encodings.h"
#include "wire/opcode.h"

namespace weft::hca {

void RcResponder::push_pending_back(const Pending& pending) {
  WEFT_DEBUG_ASSERT(pending_count_ < pending_.size(),
                    "what is owed is bounded by the reads that a peer may have under way");
  pending_at(pending_count_) = pending;
  ++pending_count_;
}

/// A repeated response goes before newer ones: the requester waits for it and would ignore those.
/// Without room it is dropped, and the requester will retry.
void RcResponder::push_repeat(const Pending& pending) {
  const auto size = static_cast<std::uint32_t>(pending_.size());
  // Keep room for requests that may legally arrive: the requester may have its response by now, and
  // then its next request follows.
  if (pending_count_ + core_.attributes.max_dest_rd_atomic >= size) {
    return;
  }
  std::uint32_t place = pending_count_;
  ++pending_count_;
  for (; place != 0 && distance(pending.psn, pending_at(place - 1).psn) > 0; --place) {
    pending_at(place) = pending_at(place - 1);
  }
  pending_at(place) = pending;
  pending_at(place).is_repeat = true;
  ++repeats_;
}

void RcResponder::pop_pending() {
  repeats_ -= pending_at(0).is_repeat ? 1 : 0;
  pending_head_ = (pending_head_ + 1) % static_cast<std::uint32_t>(pending_.size());
  --pending_count_;
}

/// Acknowledgements coalesce: the newest implies all older ones (§9.7.5.1.3).
void RcResponder::schedule_ack(Psn psn) {
  ack_due_ = true;
  ack_psn_ = psn;
}

void RcResponder::schedule_nak(wire::Syndrome syndrome, Psn psn) {
  nak_due_ = true;
  nak_ = syndrome;
  nak_psn_ = psn;
  ack_due_ = false;  // the NAK acknowledges everything before its PSN
}

/// R-RVT-9: credits are the free receive WQEs; an SRQ has no count to grant.
wire::Syndrome RcResponder::positive_syndrome() const {
  if (core_.srq != nullptr || core_.xrcd != nullptr) {
    return wire::Syndrome::ack(wire::kUnlimitedCredits);
  }
  return wire::Syndrome::ack(wire::credit_code(core_.receive_queue.size()));
}

bool RcResponder::transmit(TransmitSink& sink, unsigned& budget) {
  if (pending_count_ == 0 && ack_due_ && !nak_due_ && budget != 0) [[likely]] {
    --budget;
    ack_due_ = !transmit_acknowledge(sink, positive_syndrome(), ack_psn_);
    return ack_due_;
  }
  while (needs_transmit()) {
    if (budget == 0) {
      return true;
    }
    --budget;
    if (pending_count_ != 0) {
      Pending& pending = pending_at(0);
      const Step step = pending.answer == Answer::Read     ? transmit_read(sink, pending)
                        : pending.answer == Answer::Atomic ? transmit_atomic(sink, pending)
                                                           : transmit_proxy_read(sink, pending);
      if (step == Step::Waits) {
        return false;
      }
      if (step == Step::NoSpace) {
        return true;
      }
      if (step == Step::Failed) {
        pop_pending();
      }
      continue;
    }
    if (nak_due_) {
      if (!transmit_acknowledge(sink, nak_, nak_psn_)) {
        return true;
      }
      nak_due_ = false;
      continue;
    }
    if (!transmit_acknowledge(sink, positive_syndrome(), ack_psn_)) {
      return true;
    }
    ack_due_ = false;
  }
  return false;
}

bool RcResponder::transmit_acknowledge(TransmitSink& sink, wire::Syndrome syndrome, Psn psn) {
  if (core_.has_fast_path_header()) [[likely]] {
    SinglePacket packet = core_.single(wire::Opcode::RcAcknowledge, psn, 0);
    set_extension(packet, wire::Aeth{.syndrome = syndrome, .msn = msn_});
    if (sink.send_fast(Flow::Response, packet)) {
      return true;
    }
  }
  PacketHeader& header = core_.header(Half::Responder, wire::Opcode::RcAcknowledge, psn);
  header.extension.response.aeth = wire::Aeth{.syndrome = syndrome, .msn = msn_};
  return sink.send(Flow::Response, header, {});
}

RcResponder::Step RcResponder::transmit_atomic(TransmitSink& sink, const Pending& pending) {
  PacketHeader& header =
      core_.header(Half::Responder, wire::Opcode::RcAtomicAcknowledge, pending.psn);
  header.extension.response.aeth = wire::Aeth{.syndrome = positive_syndrome(), .msn = pending.msn};
  header.extension.response.atomic_ack = wire::AtomicAckEth{.original = pending.original};
  if (!sink.send(Flow::Response, header, {})) {
    return Step::NoSpace;
  }
  pop_pending();
  return Step::Sent;
}

/// The next response packet or train of a READ. The memory is looked up each time: it may have been
/// deregistered since the request arrived, and then the requester gets a NAK.
RcResponder::Step RcResponder::transmit_read(TransmitSink& sink, Pending& pending) {
  const std::uint32_t mtu = core_.mtu_bytes();
  const std::uint32_t train = core_.train_packets(sink.max_train_bytes()) * mtu;
  const std::uint32_t bytes = std::min(pending.bytes_left, train);
  const MemoryTable::Found found = core_.find_for_peer(
      *target_of(pending.xrc_srqn).pd, pending.rkey, pending.address, bytes, Access::RemoteRead);
  if (found.fault != KeyFault::None) {
    schedule_nak(wire::Syndrome::nak(wire::NakCode::RemoteAccessError), pending.psn);
    core_.raise(AsyncEventType::QpAccessError);
    core_.fail(Half::Responder, "memory that a READ was reading is gone");
    return Step::Failed;
  }
  const std::uint32_t count = core_.packets(bytes);
  PacketHeader& header = read_response(pending, count, bytes == pending.bytes_left);
  const std::array<ByteSpan, 1> whole{ByteSpan{found.memory}};
  std::span<const ByteSpan> gather{whole};
  if (found.pages != nullptr) [[unlikely]] {
    core_.answered.clear();
    core_.answered.add(found, bytes);
    gather = core_.answered.pieces();
  }
  if (!sink.send(Flow::Response, header, bytes == 0 ? std::span<const ByteSpan>{} : gather)) {
    return Step::NoSpace;
  }
  advance_read(pending, bytes, count);
  return Step::Sent;
}

/// The header of the next `count` response packets; `last`: they complete the READ.
PacketHeader& RcResponder::read_response(const Pending& pending, std::uint32_t count, bool last) {
  const bool first = !pending.started;
  const auto opcode = [](bool starts, bool ends) {
    return starts ? (ends ? wire::Opcode::RcRdmaReadResponseOnly
                          : wire::Opcode::RcRdmaReadResponseFirst)
                  : (ends ? wire::Opcode::RcRdmaReadResponseLast
                          : wire::Opcode::RcRdmaReadResponseMiddle);
  };
  PacketHeader& header =
      core_.header(Half::Responder, opcode(first, last && count == 1), pending.psn);
  header.last_opcode = count == 1 ? header.opcode : core_.opcode(opcode(false, last));
  header.packet_count = static_cast<std::uint16_t>(count);
  header.extension.response.aeth = wire::Aeth{.syndrome = positive_syndrome(), .msn = pending.msn};
  return header;
}

void RcResponder::advance_read(Pending& pending, std::uint32_t bytes, std::uint32_t packets) {
  pending.started = true;
  pending.psn = pending.psn + packets;
  pending.address += bytes;
  pending.bytes_left -= bytes;
  if (pending.bytes_left == 0) {
    pop_pending();
  }
}

}  // namespace weft::hca
