#include "hca/rc/responder.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "base/process_slot.h"
#include "hca/atomic_operation.h"
#include "hca/invariant.h"
#include "hca/planted_bug.h"
#include "hca/train.h"
#include "verbs/mtu.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

using wire::Operation;
using wire::Position;

[[nodiscard]] bool starts(const wire::OpcodeInfo& info) {
  return info.position == Position::First || info.position == Position::Only;
}

/// PSNs that a request takes: a READ one for each of its response packets (§9.7.3.1).
[[nodiscard]] std::uint32_t psns_of(const Packet& packet, verbs::Mtu mtu) {
  return wire::opcode_info(packet.header.opcode)->operation == Operation::RdmaReadRequest
             ? verbs::packets(packet.header.extension.reth.dma_length, mtu)
             : packet.header.packet_count;
}

}  // namespace

RcResponder::RcResponder(QpCore& core, const DeviceLimits& limits)
    : core_(core),
      target_{.pd = &core.pd, .receive_pd = &core.receive_pd, .xrc_srq = nullptr, .owner_slot = 0},
      pending_(std::size_t{limits.max_qp_rd_atomic} * 2),
      atomics_(limits.max_qp_rd_atomic) {}

RcResponder::Target RcResponder::target_of(std::uint32_t xrc_srqn) const {
  if (core_.xrcd == nullptr) {
    return {.pd = &core_.pd, .receive_pd = &core_.receive_pd, .xrc_srq = nullptr, .owner_slot = 0};
  }
  if (SharedReceiveQueue* const srq = core_.xrc_srqs->find(xrc_srqn, *core_.xrcd)) {
    return {.pd = &srq->pd(), .receive_pd = &srq->pd(), .xrc_srq = srq, .owner_slot = 0};
  }
  const std::uint32_t owner = slot_of(Qpn{xrc_srqn});
  const bool is_relayed = core_.xrcd->name != 0 && owner != slot_of(core_.number);
  return {.pd = &core_.pd,
          .receive_pd = &core_.receive_pd,
          .xrc_srq = nullptr,
          .owner_slot = is_relayed ? owner : 0};
}

void RcResponder::start() {
  expected_ = core_.attributes.rq_psn;
  msn_ = Msn{0};
  stop();
  established_reported_ = false;
}

void RcResponder::stop() {
  message_ = {};
  core_.discard_receive();
  release_proxies();
  gap_reported_ = closing_ = ack_due_ = nak_due_ = false;
  pending_head_ = pending_count_ = repeats_ = 0;
  for (AtomicRecord& record : atomics_) {
    record.valid = false;
  }
}

void RcResponder::enter_error() {
  const bool keep_answers = closing_;
  if (!keep_answers) {
    stop();
  } else if (relay_ != nullptr) {
    fail_requests();
  }
  message_ = {};
  core_.discard_receive();
}

/// The PSN check (IBTA vol 1 §9.7.4.1.2): expected, duplicate or gap.
void RcResponder::handle_request(const Packet& packet) {
  const QpState state = core_.state();
  if ((state != QpState::Rtr && state != QpState::Rts && state != QpState::Sqd) ||
      core_.is_failing(Half::Responder)) {
    return;
  }
  if (core_.xrcd != nullptr) {
    target_ = target_of(packet.header.xrc_srqn);
    if (target_.owner_slot != 0 || (relay_ != nullptr && relay_->call.is_active)) [[unlikely]] {
      relay_request(packet);
      return;
    }
  }
  const std::int32_t offset = distance(expected_, packet.header.psn);
  if (offset == 0 || planted(PlantedBug::ExpectedPsnCheckSkipped)) {
    if (planted(PlantedBug::ExpectedPsnCheckSkipped)) {
      expected_ = packet.header.psn;
    }
    report_established();
    handle_expected(packet);
    return;
  }
  handle_unexpected(packet, offset);
}

void RcResponder::report_established() {
  if (!established_reported_ && core_.state() == QpState::Rtr) {
    core_.raise(AsyncEventType::CommunicationEstablished);  // R-RVT-16
  }
  established_reported_ = true;
}

void RcResponder::handle_singles_of(const Packet& train) {
  for (std::uint32_t i = 0; i < train.header.packet_count; ++i) {
    handle_request(single_of_train(train, i));
  }
}

void RcResponder::handle_unexpected(const Packet& packet, std::int32_t offset) {
  if (packet.header.packet_count > 1) {  // part of the train may be new
    handle_singles_of(packet);
    return;
  }
  if (offset < 0) {
    handle_duplicate(packet);
  } else if (!gap_reported_) {
    gap_reported_ = true;
    if (planted(PlantedBug::SequenceErrorNakLost)) {
      expected_ = packet.header.psn;
      return;
    }
    schedule_nak(wire::Syndrome::nak(wire::NakCode::PsnSequenceError), expected_);
  }
}

void RcResponder::handle_expected(const Packet& packet) {
  const wire::OpcodeInfo* const info = wire::opcode_info(packet.header.opcode);
  if (info != nullptr && take_single(packet, *info)) [[likely]] {
    return;
  }
  handle_checked(packet);
}

void RcResponder::handle_checked(const Packet& packet) {
  const Refusal refusal = wire::opcode_info(packet.header.opcode) == nullptr
                              ? Refusal{RcFault::OpcodeUnsupported, "a reserved opcode"}
                              : check(packet);
  if (refusal.fault == RcFault::None) {
    gap_reported_ = false;
    execute(packet);
    return;
  }
  if (packet.header.packet_count > 1) {  // the packets before the offending one are executed
    handle_singles_of(packet);
    return;
  }
  refuse(packet, refusal);
}

void RcResponder::refuse(const Packet& packet, const Refusal& refusal) {
  core_.explain([&] {
    return fmt::format("RC QP {:#x} refuses the request with PSN {}: {}", core_.number.value(),
                       packet.header.psn.value(), refusal.reason);
  });
  if (refusal.fault == RcFault::ReceiverNotReady) {
    gap_reported_ =
        true;  // packets after the refused request are dropped silently until it is repeated
    schedule_nak(wire::Syndrome::rnr(core_.attributes.min_rnr_timer), expected_);
    return;
  }
  const RcFaultRow& row = rc_fault_row(refusal.fault);
  if (is_answered(refusal.fault) || core_.proxy_for) {
    schedule_nak(wire::Syndrome::nak(row.nak), expected_);
  }
  closing_ = row.is_fatal;
  if (core_.has_current_receive) {
    core_.has_current_receive = false;
    Wc wc;
    wc.status = row.receive_completion;
    wc.opcode = WcOpcode::Receive;
    core_.complete_receive(core_.current_receive, wc, true);
  } else {
    core_.raise(row.event);
  }
  core_.fail(Half::Responder, refusal.reason);
}

/// The key was valid when the request was checked, and another thread has invalidated it since.
void RcResponder::refuse_invalidated_key(const Packet& packet) {
  message_ = {};
  refuse(packet, {RcFault::RKeyViolation, "the R_Key was invalidated"});
}

bool RcResponder::ensure_receive_wqe() {
  if (!core_.has_current_receive) {
    core_.has_current_receive = target_.xrc_srq != nullptr
                                    ? core_.take_current_receive(*target_.xrc_srq)
                                    : core_.take_receive_wqe(core_.current_receive);
  }
  return core_.has_current_receive;
}

/// Fast path of check() for the most frequent requests: a SEND or WRITE of one packet that breaks
/// no rule. False if the request is of another kind or breaks a rule; at most a receive WQE was
/// taken, which check() would also have taken.
inline bool RcResponder::take_single(const Packet& packet, const wire::OpcodeInfo& info) {
  const PacketHeader& header = packet.header;
  const bool has_immediate = info.headers.has(wire::ExtensionHeader::Immediate);
  const bool is_send = info.operation == Operation::Send;
  const bool is_permitted = is_send || (info.operation == Operation::RdmaWrite &&
                                        core_.attributes.access.has(Access::RemoteWrite));
  if (!core_.has_fast_path || info.position != Position::Only || header.packet_count != 1 ||
      message_.active || core_.xrcd != nullptr || packet.payload.size() > core_.mtu_bytes() ||
      !is_permitted || info.headers.has(wire::ExtensionHeader::Ieth)) {
    return false;
  }
  if ((is_send || has_immediate) && !ensure_receive_wqe()) {
    return false;
  }
  if (!(is_send ? place_send(packet) : place_write(packet))) {
    return false;
  }
  gap_reported_ = false;
  msn_ = msn_ + 1;
  if (!is_send) {
    grant_placement(header.extension.reth);
  }
  if (is_send || has_immediate) {
    complete_receive(packet, info, packet.payload.size());
    if (core_.is_failing(Half::Responder)) [[unlikely]] {
      return true;
    }
  }
  record_executed(packet, 1);
  return true;
}

inline bool RcResponder::place_send(const Packet& packet) {
  const std::span<const Sge> sges = core_.current_receive.list.sges();
  const std::size_t bytes = packet.payload.size();
  if (bytes > core_.current_receive.length || sges.size() != 1) {
    return bytes == 0;
  }
  const MemoryTable::Found found = core_.memory.find(
      core_.receive_pd, sges.front().lkey, sges.front().address, bytes, Access::LocalWrite);
  if (found.fault != KeyFault::None || found.discards) {
    return false;
  }
  place(found, packet.payload);
  return true;
}

inline bool RcResponder::place_write(const Packet& packet) {
  const wire::Reth& reth = packet.header.extension.reth;
  const std::size_t bytes = packet.payload.size();
  if (reth.dma_length != bytes) {
    return false;
  }
  const MemoryTable::Found found =
      core_.find_for_peer(reth.rkey, reth.virtual_address, bytes, Access::RemoteWrite);
  if (found.fault != KeyFault::None || found.discards) {
    return false;
  }
  if (!planted(PlantedBug::UnplacedWriteAcknowledged)) {
    place(found, packet.payload);
  }
  return true;
}

void RcResponder::execute(const Packet& packet) {
  const wire::OpcodeInfo& first = *wire::opcode_info(packet.header.opcode);
  const wire::OpcodeInfo& last = *wire::opcode_info(packet.header.last_opcode);
  const bool ends = last.position == Position::Last || last.position == Position::Only;
  const std::uint32_t psns = psns_of(packet, core_.attributes.path_mtu);
  switch (first.operation) {
    case Operation::Send:
      execute_send(packet, first, ends);
      break;
    case Operation::RdmaWrite:
      execute_write(packet, first, ends);
      break;
    case Operation::RdmaReadRequest:
      execute_read(packet);
      break;
    case Operation::AtomicWrite:
      execute_atomic_write(packet);
      break;
    case Operation::Flush:
      execute_flush(packet);
      break;
    default:
      execute_atomic(packet, first);
      break;
  }
  if (core_.is_failing(Half::Responder)) {
    return;
  }
  const bool answered_by_response =
      first.operation != Operation::Send && first.operation != Operation::RdmaWrite;
  if (answered_by_response) {
    expected_ = expected_ + psns;
  } else {
    record_executed(packet, psns);
  }
}

/// A SEND or WRITE packet or train was executed; schedules an acknowledgement if one is requested.
inline void RcResponder::record_executed(const Packet& packet, std::uint32_t psns) {
  expected_ = expected_ + psns;
  if (packet.header.ack_request) {
    schedule_ack(planted(PlantedBug::AcknowledgedTooFar) ? expected_ : expected_ - 1);
  }
}

void RcResponder::execute_send(const Packet& packet, const wire::OpcodeInfo& first, bool ends) {
  if (starts(first)) {
    message_ = {.active = true, .is_write = false, .xrc_srqn = packet.header.xrc_srqn};
  }
  const WcStatus status = core_.scatter(*target_.receive_pd, core_.current_receive.list.sges(),
                                        message_.bytes, packet.payload);
  if (status != WcStatus::Success) {
    message_ = {};
    refuse(packet, {RcFault::LocalQpOperation,
                    "the receive WQE's scatter list is not writable memory of its queue's PD"});
    return;
  }
  message_.bytes += packet.payload.size();
  if (ends) {
    msn_ = msn_ + 1;
    complete_receive(packet, *wire::opcode_info(packet.header.last_opcode), message_.bytes);
    message_ = {};
  }
}

/// The peer has been let into a region, and may go on by itself (hca/placement.h).
inline void RcResponder::grant_placement(RKey reached) {
  if (core_.placement != PlacementPolicy::Never && core_.type == QpType::Rc) [[unlikely]] {
    core_.grant_placement(reached);
  }
}
inline void RcResponder::grant_placement(const wire::Reth& reached) {
  if (reached.dma_length != 0) {  // else no key was checked (C9-88)
    grant_placement(reached.rkey);
  }
}

void RcResponder::execute_write(const Packet& packet, const wire::OpcodeInfo& first, bool ends) {
  if (starts(first)) {
    const wire::Reth reth = packet.header.extension.reth;
    message_ = {.active = true,
                .is_write = true,
                .bytes = 0,
                .address = reth.virtual_address,
                .rkey = reth.rkey,
                .length = reth.dma_length,
                .xrc_srqn = packet.header.xrc_srqn};
    grant_placement(reth);
  }
  if (!packet.payload.empty()) {
    const MemoryTable::Found found =
        core_.find_for_peer(*target_.pd, message_.rkey, message_.address + message_.bytes,
                            packet.payload.size(), Access::RemoteWrite);
    if (found.fault != KeyFault::None) {
      refuse_invalidated_key(packet);
      return;
    }
    if (!planted(PlantedBug::UnplacedWriteAcknowledged)) {
      place(found, packet.payload);
    }
    message_.bytes += packet.payload.size();
  }
  if (ends) {
    msn_ = msn_ + 1;
    const wire::OpcodeInfo& last = *wire::opcode_info(packet.header.last_opcode);
    if (last.headers.has(wire::ExtensionHeader::Immediate)) {
      complete_receive(packet, last, message_.length);
    }
    message_ = {};
  }
}

/// Completes the receive of a message of `bytes` bytes whose last packet this is.
void RcResponder::complete_receive(const Packet& packet, const wire::OpcodeInfo& last,
                                   std::uint64_t bytes) {
  const bool has_key = last.headers.has(wire::ExtensionHeader::Ieth);
  if (has_key && core_.memory.invalidate(*target_.pd, RKey{packet.header.immediate_or_rkey},
                                         core_.number) != KeyFault::None) {
    refuse(packet, {RcFault::Invalidation,
                    "SEND with invalidate names a key that this QP may not invalidate"});
    return;
  }
  if (has_key) {
    core_.end_key(RKey{packet.header.immediate_or_rkey}, Half::Responder);
  }
  core_.has_current_receive = planted(PlantedBug::ReceiveWqeUsedTwice);
  core_.complete_current_receive(packet.header.solicited, [&](Wc& wc) {
    wc.opcode = last.operation == Operation::RdmaWrite ? WcOpcode::ReceiveRdmaWithImmediate
                                                       : WcOpcode::Receive;
    wc.byte_length = static_cast<std::uint32_t>(bytes);
    wc.src_qpn = core_.attributes.dest_qpn;
    wc.slid = packet.header.slid;
    wc.sl = packet.header.sl;
    if (last.headers.has(wire::ExtensionHeader::Immediate)) {
      wc.flags = Completion::WithImmediate;
      wc.immediate = packet.header.immediate_or_rkey;
    }
    if (has_key) {
      wc.flags = Completion::WithInvalidate;
      wc.invalidated_rkey = RKey{packet.header.immediate_or_rkey};
    }
  });
  if (core_.is_failing(Half::Responder)) {  // its CQ is in error: a class A fault (§9.9.3)
    schedule_nak(wire::Syndrome::nak(wire::NakCode::RemoteOperationalError), expected_);
    closing_ = true;
  }
}

void RcResponder::execute_read(const Packet& packet) {
  const wire::Reth reth = packet.header.extension.reth;
  grant_placement(reth);
  msn_ = msn_ + 1;
  push_pending_back({.answer = Answer::Read,
                     .psn = packet.header.psn,
                     .bytes_left = reth.dma_length,
                     .address = reth.virtual_address,
                     .rkey = reth.rkey,
                     .xrc_srqn = packet.header.xrc_srqn,
                     .started = false,
                     .msn = msn_,
                     .original = 0});
}

/// Writes all eight bytes atomically, after the data of earlier requests; answered like a READ of
/// zero length (IBTA vol 1 annex A19).
void RcResponder::execute_atomic_write(const Packet& packet) {
  const wire::Reth reth = packet.header.extension.reth;
  const MemoryTable::Found found = core_.find_for_peer(*target_.pd, reth.rkey, reth.virtual_address,
                                                       packet.payload.size(), Access::RemoteWrite);
  if (found.fault != KeyFault::None) {
    refuse_invalidated_key(packet);
    return;
  }
  place(found, packet.payload);
  push_empty_read(packet.header.psn);
}

/// The data of earlier requests is placed already. The fence makes it visible to all CPUs of the
/// host before the response; the driver makes it persistent if requested (IBTA vol 1 annex A19).
void RcResponder::execute_flush(const Packet& packet) {
  const MemoryTable::Found found = core_.find_to_flush(*target_.pd, packet.header);
  if (found.fault != KeyFault::None) {
    refuse_invalidated_key(packet);
    return;
  }
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const bool must_persist =
      (packet.header.extension.flush.feth.placement & wire::kPlacementPersistent) != 0 &&
      !planted(PlantedBug::FlushAnsweredBeforeData);
  if (must_persist && !core_.memory.persist(found.memory)) {
    refuse(packet, {RcFault::RKeyViolation, "the region's memory could not be made persistent"});
    return;
  }
  push_empty_read(packet.header.psn);
}

/// Schedules the response of an executed request, that of a READ of zero length.
void RcResponder::push_empty_read(Psn psn) {
  msn_ = msn_ + 1;
  push_pending_back({.answer = Answer::Read,
                     .psn = psn,
                     .bytes_left = 0,
                     .address = 0,
                     .rkey = {},
                     .started = false,
                     .msn = msn_,
                     .original = 0});
}

/// The result is kept for duplicates of the request.
void RcResponder::execute_atomic(const Packet& packet, const wire::OpcodeInfo& info) {
  const wire::AtomicEth eth = packet.header.extension.atomic_eth;
  const MemoryTable::Found found = core_.find_for_peer(*target_.pd, eth.rkey, eth.virtual_address,
                                                       kAtomicBytes, Access::RemoteAtomic);
  if (found.fault != KeyFault::None) {
    refuse_invalidated_key(packet);
    return;
  }
  grant_placement(eth.rkey);
  const AtomicOperation operation{.compares = info.operation == Operation::CompareSwap,
                                  .swap_or_add = eth.swap_or_add,
                                  .compare = eth.compare};
  record_atomic(packet.header, perform(operation, found.memory.data()));
}

/// Schedules the response of an executed atomic, and keeps its result.
void RcResponder::record_atomic(const PacketHeader& request, std::uint64_t original) {
  msn_ = msn_ + 1;
  atomics_[next_atomic_] = {.psn = request.psn, .msn = msn_, .original = original, .valid = true};
  next_atomic_ = (next_atomic_ + 1) % static_cast<std::uint32_t>(atomics_.size());
  push_pending_back({.answer = Answer::Atomic,
                     .psn = request.psn,
                     .bytes_left = 0,
                     .address = 0,
                     .rkey = {},
                     .xrc_srqn = request.xrc_srqn,
                     .started = false,
                     .msn = msn_,
                     .original = original});
}

void RcResponder::check_invariants() const {
  invariant(pending_count_ <= pending_.size(), "pending_count_ <= pending_.size()");
  invariant(!message_.active || message_.is_write || message_.is_for_proxy ||
                core_.has_current_receive || core_.state() == QpState::Err,
            "!message_.active || message_.is_write || message_.is_for_proxy || "
            "core_.has_current_receive || core_.state() == QpState::Err");
  invariant(!message_.is_write || message_.bytes <= message_.length,
            "!message_.is_write || message_.bytes <= message_.length");
}

}  // namespace weft::hca
