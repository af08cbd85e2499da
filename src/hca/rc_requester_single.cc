#include <array>
#include <cassert>

#include "hca/planted_bug.h"
#include "hca/rc_requester.h"
#include "hca/wr_kind.h"
#include "wire/opcode.h"

// Most messages are one packet of a QP that waits for nothing but acknowledgements. Such a one goes
// out before its WQE is written: what the peer waits for comes first. Whatever is out of the
// ordinary is left to the general way, which finds the same QP as before.

namespace weft::hca {
namespace {

/// By work request: WRITE and SEND, with and without immediate.
constexpr std::array<wire::Opcode, 4> kOpcodes{
    wire::Opcode::RcRdmaWriteOnly, wire::Opcode::RcRdmaWriteOnlyWithImmediate,
    wire::Opcode::RcSendOnly, wire::Opcode::RcSendOnlyWithImmediate};
static_assert(static_cast<unsigned>(WrOpcode::RdmaWrite) == 0 &&
              static_cast<unsigned>(WrOpcode::RdmaWriteWithImmediate) == 1 &&
              static_cast<unsigned>(WrOpcode::Send) == 2 &&
              static_cast<unsigned>(WrOpcode::SendWithImmediate) == 3);

}  // namespace

/// Nothing was posted before it that is not out, nothing keeps it from going out, and it is one
/// that this way is for.
bool RcRequester::is_ready_for_single(const SendWr& wr) const {
  const SendQueue& queue = core_.send_queue;
  return static_cast<std::size_t>(wr.opcode) < kOpcodes.size() && cursor_ == queue.tail() &&
         core_.state() == QpState::Rts && core_.type == QpType::Rc && !queue.is_full() &&
         wr.sges.size() <= 1 && !wr.flags.has(Send::Fence) && wr.binding == nullptr && !stalled_ &&
         !is_failing() && rnr_until_ == Instant::never() && outstanding_packets() < kPsnWindow &&
         has_credit(kind_of(wr.opcode).traits) && !planted(PlantedBug::CompletionBeforeAcknowledge);
}

/// The message's bytes where the program has them. False when it is longer than a packet or the
/// queue's limits, or the L_Key does not lead to them.
bool RcRequester::find_single(const SendWr& wr, ByteSpan& payload) const {
  if (wr.sges.empty()) {
    return true;
  }
  const Sge& sge = wr.sges.front();
  if (sge.length > core_.mtu_bytes()) {
    return false;
  }
  if (wr.flags.has(Send::Inline)) {
    payload = local_bytes(sge);
    return sge.length <= core_.send_queue.max_inline_bytes();
  }
  const MemoryTable::Found found =
      core_.memory.find(core_.pd, sge.lkey, sge.address, sge.length, AccessFlags{});
  payload = found.memory;
  return found.fault == KeyFault::None && core_.send_queue.max_sge() != 0;
}

bool RcRequester::post_single(const SendWr& wr, TransmitSink& sink, Instant now) {
  ByteSpan payload;
  if (!is_ready_for_single(wr) || !find_single(wr, payload)) {
    return false;
  }
  const WrTraits traits = kind_of(wr.opcode).traits;
  PacketHeader& header =
      core_.header(Half::Requester, kOpcodes[static_cast<std::size_t>(wr.opcode)], next_psn_);
  header.solicited = wr.flags.has(Send::Solicited);
  header.ack_request = needs_acknowledgement(wr.flags, traits, Msn{ssn_} + 1);
  if (traits.has(WrTrait::Write)) {
    header.extension.reth = wire::Reth{.virtual_address = wr.remote_address,
                                       .rkey = wr.rkey,
                                       .dma_length = static_cast<std::uint32_t>(payload.size())};
  }
  header.immediate_or_rkey = wr.immediate;
  const std::array<ByteSpan, 1> gather{payload};
  if (!sink.send(Flow::Request, header, std::span{gather}.first(payload.empty() ? 0 : 1))) {
    return false;
  }
  SendWqe& wqe = core_.send_queue.push(wr);
  wqe.first_psn = next_psn_;
  wqe.packet_count = 1;
  next_psn_ = next_psn_ + 1;
  take_ssn(traits);
  wqe.ssn = ssn_;
  cursor_ = next_new_ = core_.send_queue.tail();
  cursor_packet_ = 0;
  if (retry_at_ == Instant::never()) {
    arm_retry_timer(now);
  }
  return true;
}

}  // namespace weft::hca
