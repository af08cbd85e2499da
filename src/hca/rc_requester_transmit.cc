#include <fmt/format.h>

#include <algorithm>
#include <cassert>

#include "hca/planted_bug.h"
#include "hca/rc_requester.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

/// Half of the PSN space may be outstanding (IBTA vol 1 §9.7.1); one READ of 2^31 bytes at MTU 256
/// takes all of it.
constexpr std::uint32_t kPsnWindow = 1U << 23;

/// Long messages ask for an acknowledgement every so many packets, so that a retry need not start
/// from their beginning. Policy, not from the specification.
constexpr std::uint32_t kAckRequestInterval = 128;

[[nodiscard]] bool is_atomic(WrOpcode opcode) {
  return opcode == WrOpcode::CompareSwap || opcode == WrOpcode::FetchAdd;
}

[[nodiscard]] bool takes_response(WrOpcode opcode) {
  return opcode == WrOpcode::RdmaRead || is_atomic(opcode);
}

/// Whether the message consumes a receive WQE of the peer, which is what end-to-end credits count
/// (§9.7.7.2).
[[nodiscard]] bool needs_credit(WrOpcode opcode) {
  return opcode == WrOpcode::Send || opcode == WrOpcode::SendWithImmediate ||
         opcode == WrOpcode::SendWithInvalidate || opcode == WrOpcode::RdmaWriteWithImmediate;
}

[[nodiscard]] bool is_write(WrOpcode opcode) {
  return opcode == WrOpcode::RdmaWrite || opcode == WrOpcode::RdmaWriteWithImmediate;
}

[[nodiscard]] wire::Opcode request_opcode(const SendWqe& wqe, bool first, bool last) {
  const wire::Position position = first ? (last ? wire::Position::Only : wire::Position::First)
                                        : (last ? wire::Position::Last : wire::Position::Middle);
  const bool immediate = last && (wqe.opcode == WrOpcode::SendWithImmediate ||
                                  wqe.opcode == WrOpcode::RdmaWriteWithImmediate);
  const bool invalidate = last && wqe.opcode == WrOpcode::SendWithInvalidate;
  return wire::make_opcode(
      wire::Transport::Rc,
      is_write(wqe.opcode) ? wire::Operation::RdmaWrite : wire::Operation::Send, position,
      immediate, invalidate);
}

}  // namespace

bool RcRequester::wants_transmit() const {
  const QpState state = core_.state();
  if ((state != QpState::Rts && state != QpState::Sqd) || stalled_ || is_failing() ||
      rnr_until_ != Instant::never()) {
    return false;
  }
  if (cursor_ < next_new_) {
    return true;  // something to send again, or the rest of a message
  }
  return state == QpState::Rts && cursor_ < core_.send_queue.tail() &&
         may_start(core_.send_queue.at(cursor_));
}

bool RcRequester::transmit(TransmitSink& sink, Instant now, unsigned& budget) {
  while (wants_transmit()) {
    if (budget == 0) {
      return true;
    }
    --budget;
    const Step step = transmit_one(sink, now);
    if (step == Step::NoRoom) {
      return true;
    }
    if (step == Step::Nothing) {
      break;
    }
  }
  return false;
}

RcRequester::Step RcRequester::transmit_one(TransmitSink& sink, Instant now) {
  SendWqe& wqe = core_.send_queue.at(cursor_);
  if (cursor_ == next_new_) {
    begin(wqe);
  }
  if (wqe.done) {  // nothing of it is missing: a READ that a retry passed over, or a local
                   // operation
    cursor_packet_ = wqe.packet_count;
    advance_cursor();
    return Step::Sent;
  }
  if (wqe.opcode == WrOpcode::LocalInvalidate) {
    return invalidate_locally(wqe);
  }
  if (takes_response(wqe.opcode)) {
    return wqe.opcode == WrOpcode::RdmaRead ? send_read(sink, wqe, now)
                                            : send_atomic(sink, wqe, now);
  }
  return send_message_part(sink, wqe, now);
}

std::uint32_t RcRequester::outstanding_packets() const {
  return static_cast<std::uint32_t>(next_psn_.value() - unacknowledged_.value()) & Psn::kMask;
}

/// Whether a WQE without PSNs may take its own now.
bool RcRequester::may_start(const SendWqe& wqe) const {
  if (wqe.opcode == WrOpcode::LocalInvalidate) {
    return !(wqe.fenced && reads_outstanding_ > 0);
  }
  const std::uint32_t packets = core_.packets(wqe.length);
  if (outstanding_packets() != 0 && outstanding_packets() + packets > kPsnWindow) {
    return false;
  }
  if (wqe.fenced && reads_outstanding_ > 0) {
    return false;
  }
  if (takes_response(wqe.opcode) && core_.attributes.max_rd_atomic != 0 &&
      reads_outstanding_ >= core_.attributes.max_rd_atomic) {
    return false;
  }
  if (needs_credit(wqe.opcode) && !unlimited_credits_) {
    return distance(Msn{ssn_ + 1}, Msn{lsn_ + 1}) >= 0;  // R-RVT-10: SSN <= LSN + 1
  }
  return true;
}

/// Gives a WQE its PSNs and its send sequence number.
void RcRequester::begin(SendWqe& wqe) {
  assert(cursor_ == next_new_);
  wqe.first_psn = next_psn_;
  wqe.done = false;
  wqe.bytes_done = 0;
  wqe.status = WcStatus::Success;
  cursor_packet_ = 0;
  ++next_new_;
  if (wqe.opcode == WrOpcode::LocalInvalidate) {
    wqe.packet_count = 0;
    return;
  }
  wqe.packet_count = is_atomic(wqe.opcode) ? 1 : core_.packets(wqe.length);
  next_psn_ = next_psn_ + wqe.packet_count;
  ssn_ = (ssn_ + 1) & Msn::kMask;
  wqe.ssn = ssn_;
  if (!unlimited_credits_ && !needs_credit(wqe.opcode)) {
    lsn_ = (lsn_ + 1) & Msn::kMask;  // takes an SSN but no receive WQE
  }
  if (takes_response(wqe.opcode)) {
    ++reads_outstanding_;
  }
}

void RcRequester::advance_cursor() {
  if (cursor_packet_ >= core_.send_queue.at(cursor_).packet_count) {
    ++cursor_;
    cursor_packet_ = 0;
  }
}

RcRequester::Step RcRequester::send_message_part(TransmitSink& sink, SendWqe& wqe, Instant now) {
  const std::uint32_t mtu = core_.mtu_bytes();
  const std::uint32_t left = wqe.packet_count - cursor_packet_;
  const std::uint32_t count = std::min(left, core_.train_packets(sink.max_train_bytes()));
  const std::uint64_t offset = std::uint64_t{cursor_packet_} * mtu;
  const bool first = cursor_packet_ == 0;
  const bool last = count == left;
  const auto bytes = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(std::uint64_t{count} * mtu, wqe.length - offset));

  if (const WcStatus status = core_.gather(cursor_, offset, bytes); status != WcStatus::Success) {
    return stall(wqe, status);
  }
  PacketHeader& header =
      core_.header(Half::Requester, request_opcode(wqe, first, last && count == 1),
                   wqe.first_psn + cursor_packet_);
  header.last_opcode = count == 1 ? header.opcode : request_opcode(wqe, false, last);
  header.packet_count = static_cast<std::uint16_t>(count);
  header.path_mtu_bytes = static_cast<std::uint16_t>(mtu);
  header.solicited = last && wqe.solicited;
  header.ack_request = last || (cursor_packet_ / kAckRequestInterval) !=
                                   ((cursor_packet_ + count) / kAckRequestInterval);
  if (first && is_write(wqe.opcode)) {
    header.extension.reth = wire::Reth{
        .virtual_address = wqe.remote_address, .rkey = wqe.rkey, .dma_length = wqe.length};
  }
  if (last) {
    header.immediate_or_rkey =
        wqe.opcode == WrOpcode::SendWithInvalidate ? wqe.rkey.value() : wqe.immediate;
  }
  if (!sink.send(Flow::Request, header, core_.gathered.pieces())) {
    return Step::NoRoom;
  }
  if (last && planted(PlantedBug::CompletionBeforeAcknowledge)) {
    wqe.done = true;
    unacknowledged_ = wqe.first_psn + wqe.packet_count;
    finish_in_order();
    return Step::Sent;
  }
  cursor_packet_ += count;
  advance_cursor();
  if (retry_at_ == Instant::never()) {
    arm_retry_timer(now);
  }
  return Step::Sent;
}

/// A READ request is one packet whatever it asks for; a repeated one asks only for what has not
/// arrived (C9-...: from its middle, at a packet boundary).
RcRequester::Step RcRequester::send_read(TransmitSink& sink, SendWqe& wqe, Instant now) {
  const std::uint32_t arrived = wqe.bytes_done >> wire::log2_bytes(core_.attributes.path_mtu);
  PacketHeader& header =
      core_.header(Half::Requester, wire::Opcode::RcRdmaReadRequest, wqe.first_psn + arrived);
  header.ack_request = true;
  header.path_mtu_bytes = static_cast<std::uint16_t>(core_.mtu_bytes());
  header.extension.reth = wire::Reth{.virtual_address = wqe.remote_address + wqe.bytes_done,
                                     .rkey = wqe.rkey,
                                     .dma_length = wqe.length - wqe.bytes_done};
  if (!sink.send(Flow::Request, header, {})) {
    return Step::NoRoom;
  }
  cursor_packet_ = wqe.packet_count;
  advance_cursor();
  if (retry_at_ == Instant::never()) {
    arm_retry_timer(now);
  }
  return Step::Sent;
}

RcRequester::Step RcRequester::send_atomic(TransmitSink& sink, SendWqe& wqe, Instant now) {
  const bool compare_swap = wqe.opcode == WrOpcode::CompareSwap;
  PacketHeader& header = core_.header(
      Half::Requester, compare_swap ? wire::Opcode::RcCompareSwap : wire::Opcode::RcFetchAdd,
      wqe.first_psn);
  header.ack_request = true;
  header.path_mtu_bytes = static_cast<std::uint16_t>(core_.mtu_bytes());
  header.extension.atomic_eth =
      wire::AtomicEth{.virtual_address = wqe.remote_address,
                      .rkey = wqe.rkey,
                      .swap_or_add = compare_swap ? wqe.swap : wqe.compare_add,
                      .compare = compare_swap ? wqe.compare_add : 0};
  if (!sink.send(Flow::Request, header, {})) {
    return Step::NoRoom;
  }
  cursor_packet_ = 1;
  advance_cursor();
  if (retry_at_ == Instant::never()) {
    arm_retry_timer(now);
  }
  return Step::Sent;
}

RcRequester::Step RcRequester::invalidate_locally(SendWqe& wqe) {
  wqe.done = true;
  if (core_.memory.invalidate(core_.pd, wqe.rkey) != KeyFault::None) {
    core_.explain([&] {
      return fmt::format("LOCAL_INV: key {:#x} is no valid key of this QP's PD", wqe.rkey.value());
    });
    return stall(wqe, WcStatus::LocalProtectionError);
  }
  advance_cursor();
  finish_in_order();
  return Step::Sent;
}

/// A local error: nothing more is sent. What went out before may still be acknowledged; the WQE
/// fails once it is the oldest.
RcRequester::Step RcRequester::stall(SendWqe& wqe, WcStatus status) {
  stalled_ = true;
  wqe.done = true;
  wqe.status = status;
  finish_in_order();
  return Step::Nothing;
}

}  // namespace weft::hca
