#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/assert.h"
#include "hca/packet_record.h"
#include "hca/planted_bug.h"
#include "hca/rc/requester.h"
#include "hca/wr_kind.h"
#include "verbs/mtu.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

/// At most half of the PSN space may be outstanding (IBTA vol 1 §9.7.1). One READ of 2^31 bytes at
/// MTU 256 uses all of it.
constexpr std::uint32_t kPsnWindow = 1U << 23;

/// Long messages request an acknowledgement once per this number of packets, so that a retry need
/// not start from the beginning. Policy, not from the specification.
constexpr std::uint32_t kAckRequestInterval = 128;

[[nodiscard]] wire::Opcode request_opcode(const WrKind& kind, bool first, bool last) {
  const wire::Position position = first ? (last ? wire::Position::Only : wire::Position::First)
                                        : (last ? wire::Position::Last : wire::Position::Middle);
  return wire::make_opcode(
      wire::Transport::Rc,
      kind.traits.has(WrTrait::Write) ? wire::Operation::RdmaWrite : wire::Operation::Send,
      position, last && kind.traits.has(WrTrait::Immediate),
      last && kind.traits.has(WrTrait::Invalidate));
}

/// By work request, first or not, last or not; looked up for every packet.
const auto kRequestOpcodes = [] {
  std::array<std::array<std::array<wire::Opcode, 2>, 2>, kWrKindCount> opcodes{};
  for (std::size_t row = 0; row < kWrKindCount; ++row) {
    for (const bool first : {false, true}) {
      for (const bool last : {false, true}) {
        opcodes[row][first ? 1 : 0][last ? 1 : 0] =
            request_opcode(kind_of(static_cast<WrOpcode>(row)), first, last);
      }
    }
  }
  return opcodes;
}();

[[nodiscard]] wire::Opcode request_opcode(const SendWqe& wqe, bool first, bool last) {
  return kRequestOpcodes[static_cast<std::size_t>(wqe.opcode)][first ? 1 : 0][last ? 1 : 0];
}

}  // namespace

/// Decides for the WQE at the cursor, which is inside the queue.
bool RcRequester::may_transmit() const {
  const QpState state = core_.state();
  if ((state != QpState::Rts && state != QpState::Sqd) || stalled_ || is_failing() ||
      rnr_until_ != Instant::never()) {
    return false;
  }
  if (cursor_ < next_new_) {
    return true;  // a retransmission, or the rest of a message
  }
  return state == QpState::Rts && may_start(core_.send_queue.at(cursor_));
}

bool RcRequester::transmit(TransmitSink& sink, Instant now, unsigned& budget) {
  while (needs_transmit()) {
    if (budget == 0) {
      return true;
    }
    --budget;
    const Step step = transmit_one(sink, now);
    if (step == Step::NoSpace) {
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
    const Attempt attempt = is_one_sided(wqe) ? attempt_for(wqe, now) : Attempt::None;
    if (attempt != Attempt::None) [[unlikely]] {
      const Placed placed = try_to_place(sink, wqe, now, attempt);
      if (placed != Placed::No) {
        return placed == Placed::Yes ? Step::Sent : Step::Nothing;
      }
    }
    begin(wqe, now);
  }
  if (wqe.done) {  // nothing of it is missing: a READ that the retry passed over, or a local
                   // operation
    cursor_packet_ = wqe.packet_count;
    advance_cursor();
    return Step::Sent;
  }
  const WrTraits traits = kind_of(wqe.opcode).traits;
  if (traits.has(WrTrait::Local)) {
    return perform_locally(wqe);
  }
  if (traits.has(WrTrait::TakesResponse)) {
    return wqe.opcode == WrOpcode::RdmaRead      ? send_read(sink, wqe, now)
           : wqe.opcode == WrOpcode::AtomicWrite ? send_atomic_write(sink, wqe, now)
           : wqe.opcode == WrOpcode::Flush       ? send_flush(sink, wqe, now)
                                                 : send_atomic(sink, wqe, now);
  }
  return send_message_part(sink, wqe, now);
}

/// True if a WQE without PSNs may be assigned its own now.
bool RcRequester::may_start(const SendWqe& wqe) const {
  const WrTraits traits = kind_of(wqe.opcode).traits;
  if (wqe.flags.has(Send::Fence) && reads_outstanding_ > 0) {
    return false;
  }
  if (places_ && waits_to_place(wqe)) [[unlikely]] {
    return false;
  }
  if (traits.has(WrTrait::Local)) {
    return true;
  }
  const std::uint32_t outstanding = outstanding_packets();
  if (outstanding != 0 && outstanding + core_.packets(wqe.length) > kPsnWindow) {
    return false;
  }
  if (traits.has(WrTrait::TakesResponse) && core_.attributes.max_rd_atomic != 0 &&
      reads_outstanding_ >= core_.attributes.max_rd_atomic) {
    return false;
  }
  return !traits.has(WrTrait::NeedsCredit) || credits_.allow_next();
}

/// Assigns PSNs to a WQE, and a sequence number to its message.
void RcRequester::begin(SendWqe& wqe, Instant now) {
  WEFT_DEBUG_ASSERT(cursor_ == next_new_, "nothing new is sent before what has to be sent again");
  const WrTraits traits = kind_of(wqe.opcode).traits;
  if (core_.placement == PlacementPolicy::WhereQuicker) {
    time_packets(wqe, now);
  }
  has_only_placeable_ = is_placeable(wqe) && (has_only_placeable_ || is_oldest());
  wqe.first_psn = next_psn_;
  cursor_packet_ = 0;
  ++next_new_;
  if (traits.has(WrTrait::Local)) {
    wqe.packet_count = 0;
    return;
  }
  wqe.packet_count = traits.has(WrTrait::Atomic) ? 1 : core_.packets(wqe.length);
  next_psn_ = next_psn_ + wqe.packet_count;
  credits_.count(traits.has(WrTrait::NeedsCredit));
  if (traits.has(WrTrait::TakesResponse)) {
    ++reads_outstanding_;
  }
}

void RcRequester::advance_cursor() {
  if (cursor_packet_ >= core_.send_queue.at(cursor_).packet_count) {
    ++cursor_;
    cursor_packet_ = 0;
  }
}

/// Annex A14: every XRC request has an XRCETH, including those that consume no receive WQE.
inline void RcRequester::set_srq(PacketHeader& header, const SendWqe& wqe) const {
  if (is_xrc(core_.type)) {
    header.xrc_srqn = wqe.xrc_srqn;
  }
}

/// Inlined where `part` is a constant, for messages of one packet.
inline RcRequester::Step RcRequester::send_part(TransmitSink& sink, SendWqe& wqe, Instant now,
                                                Part part) {
  const std::uint32_t packet = part.is_first ? 0 : cursor_packet_;
  const std::uint64_t offset = std::uint64_t{packet}
                               << verbs::log2_bytes(core_.attributes.path_mtu);
  const std::uint32_t bytes = part.is_last
                                  ? static_cast<std::uint32_t>(wqe.length - offset)
                                  : part.packets << verbs::log2_bytes(core_.attributes.path_mtu);
  if (const WcStatus status = core_.gather(cursor_, offset, bytes); status != WcStatus::Success) {
    return stall(wqe, status);
  }
  const bool is_one = part.packets == 1;
  PacketHeader& header =
      core_.header(Half::Requester, request_opcode(wqe, part.is_first, part.is_last && is_one),
                   wqe.first_psn + packet);
  header.last_opcode =
      is_one ? header.opcode : core_.opcode(request_opcode(wqe, false, part.is_last));
  header.packet_count = static_cast<std::uint16_t>(part.packets);
  header.solicited = part.is_last && wqe.flags.has(Send::Solicited);
  header.ack_request = part.is_last || (packet / kAckRequestInterval) !=
                                           ((packet + part.packets) / kAckRequestInterval);
  set_srq(header, wqe);
  const WrTraits traits = kind_of(wqe.opcode).traits;
  if (part.is_first && traits.has(WrTrait::Write)) {
    header.extension.reth = wire::Reth{
        .virtual_address = wqe.remote_address, .rkey = wqe.rkey, .dma_length = wqe.length};
  }
  if (part.is_last) {
    header.immediate_or_rkey = traits.has(WrTrait::Invalidate) ? wqe.rkey.value() : wqe.immediate;
  }
  if (!sink.send(Flow::Request, header, core_.gathered.pieces())) {
    return Step::NoSpace;
  }
  if (part.is_last && planted(PlantedBug::CompletionBeforeAcknowledge)) {
    wqe.done = true;
    unacknowledged_ = wqe.first_psn + wqe.packet_count;
    finish_in_order();
    return Step::Sent;
  }
  cursor_packet_ = packet + part.packets;
  advance_cursor();
  if (retry_at_ == Instant::never()) {
    arm_retry_timer(now);
  }
  return Step::Sent;
}

/// Sends a SEND or WRITE of one packet on the fast path. False: nothing was done.
inline bool RcRequester::send_fast(TransmitSink& sink, const SendWqe& wqe) {
  const WrTraits traits = kind_of(wqe.opcode).traits;
  if (!core_.has_fast_path_header() || is_xrc(core_.type) || traits.has(WrTrait::Invalidate))
      [[unlikely]] {
    return false;
  }
  const bool is_solicited = wqe.flags.has(Send::Solicited);
  SinglePacket packet = core_.single(request_opcode(wqe, true, true), wqe.first_psn,
                                     kAckRequestBit | (is_solicited ? kSolicitedBit : 0));
  if (!core_.gather_one(cursor_, packet.payload)) [[unlikely]] {
    return false;
  }
  if (traits.has(WrTrait::Write)) {
    set_extension(packet, wire::Reth{.virtual_address = wqe.remote_address,
                                     .rkey = wqe.rkey,
                                     .dma_length = wqe.length});
  }
  packet.immediate = wqe.immediate;
  packet.has_immediate = traits.has(WrTrait::Immediate);
  return sink.send_fast(Flow::Request, packet);
}

RcRequester::Step RcRequester::send_message_part(TransmitSink& sink, SendWqe& wqe, Instant now) {
  if (wqe.packet_count == 1) {
    if (send_fast(sink, wqe)) [[likely]] {
      ++cursor_;
      if (retry_at_ == Instant::never()) {
        arm_retry_timer(now);
      }
      return Step::Sent;
    }
    return send_part(sink, wqe, now, {.packets = 1, .is_first = true, .is_last = true});
  }
  const std::uint32_t left = wqe.packet_count - cursor_packet_;
  const std::uint32_t packets = std::min(left, core_.train_packets(sink.max_train_bytes()));
  return send_part(
      sink, wqe, now,
      {.packets = packets, .is_first = cursor_packet_ == 0, .is_last = packets == left});
}

/// A READ request is one packet whatever its length. A retry requests only what has not arrived,
/// from a packet boundary on.
RcRequester::Step RcRequester::send_read(TransmitSink& sink, SendWqe& wqe, Instant now) {
  const std::uint32_t arrived = wqe.bytes_done >> verbs::log2_bytes(core_.attributes.path_mtu);
  PacketHeader& header =
      core_.header(Half::Requester, wire::Opcode::RcRdmaReadRequest, wqe.first_psn + arrived);
  set_srq(header, wqe);
  header.ack_request = true;
  header.extension.reth = wire::Reth{.virtual_address = wqe.remote_address + wqe.bytes_done,
                                     .rkey = wqe.rkey,
                                     .dma_length = wqe.length - wqe.bytes_done};
  if (!sink.send(Flow::Request, header, {})) {
    return Step::NoSpace;
  }
  cursor_packet_ = wqe.packet_count;
  advance_cursor();
  if (retry_at_ == Instant::never()) {
    arm_retry_timer(now);
  }
  return Step::Sent;
}

RcRequester::Step RcRequester::send_atomic(TransmitSink& sink, SendWqe& wqe, Instant now) {
  const AtomicOperation operation = wqe.atomic();
  PacketHeader& header = core_.header(
      Half::Requester, operation.compares ? wire::Opcode::RcCompareSwap : wire::Opcode::RcFetchAdd,
      wqe.first_psn);
  set_srq(header, wqe);
  header.ack_request = true;
  header.extension.atomic_eth = wire::AtomicEth{.virtual_address = wqe.remote_address,
                                                .rkey = wqe.rkey,
                                                .swap_or_add = operation.swap_or_add,
                                                .compare = operation.compare};
  if (!sink.send(Flow::Request, header, {})) {
    return Step::NoSpace;
  }
  cursor_packet_ = 1;
  advance_cursor();
  if (retry_at_ == Instant::never()) {
    arm_retry_timer(now);
  }
  return Step::Sent;
}

/// A WRITE in its request, a READ in its response, which is empty (IBTA vol 1 annex A19).
RcRequester::Step RcRequester::send_atomic_write(TransmitSink& sink, SendWqe& wqe, Instant now) {
  PacketHeader& header = core_.header(Half::Requester, wire::Opcode::RcAtomicWrite, wqe.first_psn);
  header.ack_request = true;
  header.extension.reth = wire::Reth{
      .virtual_address = wqe.remote_address, .rkey = wqe.rkey, .dma_length = sizeof wqe.swap};
  const std::array<ByteSpan, 1> gather{bytes_of(wqe.swap)};
  if (!sink.send(Flow::Request, header, gather)) {
    return Step::NoSpace;
  }
  cursor_packet_ = 1;
  advance_cursor();
  if (retry_at_ == Instant::never()) {
    arm_retry_timer(now);
  }
  return Step::Sent;
}

/// Answered like an ATOMIC WRITE. For a whole region, the RETH only identifies the region (annex
/// A19).
RcRequester::Step RcRequester::send_flush(TransmitSink& sink, SendWqe& wqe, Instant now) {
  const FlushScope scope = wqe.flush();
  const bool is_range = scope.selectivity == wire::FlushSelectivity::Range;
  PacketHeader& header = core_.header(Half::Requester, wire::Opcode::RcFlush, wqe.first_psn);
  set_srq(header, wqe);
  header.ack_request = true;
  header.extension.flush = {
      .reth = {.virtual_address = is_range ? wqe.remote_address : 0,
               .rkey = wqe.rkey,
               .dma_length = is_range ? scope.length : 0},
      .feth = {.selectivity = static_cast<std::uint32_t>(scope.selectivity),
               .placement = scope.placement}
  };
  if (!sink.send(Flow::Request, header, {})) {
    return Step::NoSpace;
  }
  cursor_packet_ = 1;
  advance_cursor();
  if (retry_at_ == Instant::never()) {
    arm_retry_timer(now);
  }
  return Step::Sent;
}

/// In send-queue order, so that work requests posted after it see its effect.
RcRequester::Step RcRequester::perform_locally(SendWqe& wqe) {
  if (const WcStatus status = core_.perform_locally(wqe); status != WcStatus::Success) {
    return stall(wqe, status);
  }
  wqe.done = true;
  advance_cursor();
  finish_in_order();
  return Step::Sent;
}

/// A local error: nothing more is sent. What was sent before may still be acknowledged; the WQE
/// fails once it is the oldest.
RcRequester::Step RcRequester::stall(SendWqe& wqe, WcStatus status) {
  stalled_ = true;
  wqe.done = true;
  wqe.status = status;
  finish_in_order();
  return Step::Nothing;
}

}  // namespace weft::hca
