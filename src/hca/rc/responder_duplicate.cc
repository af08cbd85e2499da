#include "hca/planted_bug.h"
#include "hca/rc/responder.h"
#include "wire/opcode.h"

namespace weft::hca {

/// A duplicate request (§9.7.4.1.2, §9.7.5.1.2) is answered but not executed again.
void RcResponder::handle_duplicate(const Packet& packet) {
  const wire::OpcodeInfo* info = wire::opcode_info(packet.header.opcode);
  if (info == nullptr) {
    return;
  }
  switch (info->operation) {
    case wire::Operation::RdmaReadRequest:
      handle_duplicate_read(packet);
      return;
    case wire::Operation::AtomicWrite:  // another writer may have written there since
    case wire::Operation::Flush:        // done already (oA19-14, oA19-15)
      answer_again(packet.header.psn);
      return;
    case wire::Operation::CompareSwap:
    case wire::Operation::FetchAdd:
      if (planted(PlantedBug::AtomicExecutedTwice)) {
        execute_atomic(packet, *info);
        return;
      }
      handle_duplicate_atomic(packet.header.psn);
      return;
    default:
      break;
  }
  if (planted(PlantedBug::DuplicateSendExecuted) && check(packet).fault == RcFault::None) {
    execute(packet);
    return;
  }
  // SEND or WRITE: repeat the newest acknowledgement, which covers the duplicate.
  schedule_ack(expected_ - 1);
}

/// A READ, or the rest of one: the memory is read again, after another check of the key.
void RcResponder::handle_duplicate_read(const Packet& packet) {
  const wire::Reth reth = packet.header.extension.reth;
  const Psn psn = packet.header.psn;
  const std::uint32_t mtu = core_.mtu_bytes();
  const std::uint64_t packets =
      reth.dma_length == 0 ? 1 : (std::uint64_t{reth.dma_length} + mtu - 1) / mtu;
  const auto behind = static_cast<std::uint64_t>(-std::int64_t{distance(expected_, psn)});
  if (packets > behind || !core_.attributes.access.has(Access::RemoteRead) ||
      (target_.owner_slot == 0 && core_.find_for_peer(*target_.pd, reth.rkey, reth.virtual_address,
                                                      reth.dma_length, Access::RemoteRead)
                                          .fault != KeyFault::None)) {
    return;  // repeats no request that we have answered: dropped
  }
  // If its response is still being sent, it continues from what is requested now, and counts as
  // outstanding or repeated as before. A second response beside it would use a responder resource
  // that the requester regards as free once it has the first.
  Pending* const in_progress = pending_until(psn + core_.packets(reth.dma_length));
  if (in_progress != nullptr && in_progress->answer != Answer::Atomic) {
    if (in_progress->psn != psn || in_progress->bytes_left != reth.dma_length) {
      in_progress->psn = psn;
      in_progress->bytes_left = reth.dma_length;
      in_progress->address = reth.virtual_address;
      in_progress->rkey = reth.rkey;
      in_progress->started = false;
    }
    return;
  }
  push_repeat({.answer = target_.owner_slot != 0 ? Answer::ProxyRead : Answer::Read,
               .psn = psn,
               .bytes_left = reth.dma_length,
               .address = reth.virtual_address -
                          (planted(PlantedBug::RepeatedReadFromItsStart) ? 256U : 0U),
               .rkey = reth.rkey,
               .xrc_srqn = packet.header.xrc_srqn,
               .started = false,
               .msn = msn_,
               .original = 0});
}

/// Answers a duplicate request whose response is a READ response of zero length, without executing
/// it again.
void RcResponder::answer_again(Psn psn) {
  if (pending_until(psn + 1) != nullptr) {
    return;  // the response is still pending
  }
  push_repeat({.answer = Answer::Read,
               .psn = psn,
               .bytes_left = 0,
               .address = 0,
               .rkey = {},
               .started = false,
               .msn = msn_,
               .original = 0});
}

void RcResponder::handle_duplicate_atomic(Psn psn) {
  if (pending_until(psn + 1) != nullptr) {
    return;  // the response is still pending
  }
  for (const AtomicRecord& record : atomics_) {
    if (record.valid && record.psn == psn) {
      push_repeat({.answer = Answer::Atomic,
                   .psn = psn,
                   .bytes_left = 0,
                   .address = 0,
                   .rkey = {},
                   .xrc_srqn = 0,
                   .started = false,
                   .msn = record.msn,
                   .original = record.original});
      return;
    }
  }
}

/// The pending response whose packets end before `end`.
RcResponder::Pending* RcResponder::pending_until(Psn end) {
  for (std::uint32_t i = 0; i < pending_count_; ++i) {
    Pending& pending = pending_at(i);
    if (pending.psn + core_.packets(pending.bytes_left) == end) {
      return &pending;
    }
  }
  return nullptr;
}

}  // namespace weft::hca
