#include "sim/rc_end.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "hca/atomic_operation.h"
#include "sim/outcome.h"
#include "sim/rc_kinds.h"
#include "verbs/mtu.h"

namespace weft::sim {
namespace {

using hca::QpAttribute;
using hca::QpAttributeMask;
using hca::WrOpcode;

constexpr std::uint32_t kQueueDepth =
    6;  // fewer than slots, so that a slot is free when it is used again

constexpr std::uint32_t kInlineBytes = 64;

}  // namespace

RcEnd::RcEnd(Process& process, std::uint64_t seed, std::uint32_t operations,
             std::uint32_t max_message_bytes, bool over_xrc, Verdict& verdict)
    : durable_(process.memory()),
      random_(seed),
      verdict_(verdict),
      left_(operations),
      max_message_bytes_(max_message_bytes),
      hca_(process.hca()),
      pd_(process.pd()),
      memory_(MemoryPlan::kSize),
      seed_(seed) {
  hca::Hca& hca = hca_;
  hca::ProtectionDomain& pd = pd_;
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    memory_[i] = pattern(kGuardStream, 0, i);
  }
  for (std::size_t i = 0; i < 2 * MemoryPlan::kSlot; ++i) {
    memory_[MemoryPlan::kSourceAt + i] = pattern(kSourceStream, 0, i);
  }
  std::memset(memory_.data() + MemoryPlan::kWordAt, 0, 8);
  durable_.add(memory_);
  using hca::Access;
  region_ = *hca.register_memory(
      pd, 0x1000'0000, std::span{memory_}.first(MemoryPlan::kRegisteredEnd),
      hca::AccessFlags{Access::LocalWrite} | Access::RemoteWrite | Access::RemoteRead |
          Access::RemoteAtomic | Access::FlushGlobal | Access::FlushPersistent);
  send_cq_ = *hca.create_cq(64);
  recv_cq_ = *hca.create_cq(64);
  hca::QpInit init;
  init.type = over_xrc ? hca::QpType::XrcInitiator : hca::QpType::Rc;
  init.pd = &pd;
  init.send_cq = send_cq_;
  init.recv_cq = recv_cq_;
  init.capabilities = {.max_send_wr = kQueueDepth,
                       .max_recv_wr = kQueueDepth,
                       .max_send_sge = 3,
                       .max_recv_sge = 2,
                       .max_inline_data = kInlineBytes};
  qp_ = target_ = *hca.create_qp(init);
  if (over_xrc) {
    init.type = hca::QpType::XrcTarget;
    init.xrcd = *hca.open_xrc_domain();
    xrc_srq_ = *hca.create_xrc_srq(pd, *init.xrcd, *recv_cq_, kQueueDepth, 2);
    target_ = *hca.create_qp(init);
  }
}

std::byte RcEnd::pattern(std::uint64_t stream, std::uint64_t number, std::size_t at) const {
  return sim::pattern(seed_, stream, number, at);
}

void RcEnd::fill(std::size_t at, std::uint32_t length, std::uint64_t stream, std::uint64_t number) {
  for (std::size_t i = 0; i < length; ++i) {
    memory_[at + i] = pattern(stream, number, i);
  }
}

bool RcEnd::holds(const RcEnd& end, std::size_t at, std::uint32_t length, std::uint64_t stream,
                  std::uint64_t number) const {
  for (std::size_t i = 0; i < length; ++i) {
    if (end.memory_[at + i] != pattern(stream, number, i)) {
      return false;
    }
  }
  return true;
}

std::uint64_t RcEnd::word_of(const RcEnd& end, std::size_t at) const {
  std::uint64_t word = 0;
  std::memcpy(&word, end.memory_.data() + at, 8);
  return word;
}

void RcEnd::introduce(RcEnd& peer, Lid own, Lid other) {
  peer_ = &peer;
  own_ = own;
  other_ = other;
}

void RcEnd::connect() {
  bring_up(*qp_, *peer_->target_);
  if (target_ != qp_) {
    bring_up(*target_, *peer_->qp_);
  }
}

void RcEnd::bring_up(hca::Qp& qp, const hca::Qp& to) {
  const bool requests = qp.type() != hca::QpType::XrcTarget;
  const bool responds = qp.type() != hca::QpType::XrcInitiator;
  hca::QpAttributes attributes;
  attributes.state = hca::QpState::Init;
  attributes.port = PortNumber{1};
  attributes.access = hca::AccessFlags{hca::Access::RemoteWrite} | hca::Access::RemoteRead |
                      hca::Access::FlushGlobal | hca::Access::FlushPersistent;
  if (takes_atomics_) {
    attributes.access |= hca::Access::RemoteAtomic;
  }
  const auto step = [&](QpAttributeMask mask) {
    if (const auto modified = qp.modify(attributes, mask | QpAttribute::State); !modified) {
      report_failure(modified.error().reason);
    }
  };
  step(QpAttributeMask{QpAttribute::PKeyIndex} | QpAttribute::Port | QpAttribute::RemoteAccess);
  attributes.state = hca::QpState::Rtr;
  attributes.path_mtu = verbs::Mtu::Mtu256;
  attributes.dest_qpn = to.number();
  attributes.address.dlid = other_;
  attributes.rq_psn = Psn{static_cast<std::uint32_t>(peer_->seed_ * 77)};
  attributes.max_dest_rd_atomic = 3;
  attributes.min_rnr_timer = 12;
  const QpAttributeMask as_responder =
      QpAttributeMask{QpAttribute::MaxDestRdAtomic} | QpAttribute::MinRnrTimer;
  step(QpAttributeMask{QpAttribute::AddressVector} | QpAttribute::PathMtu | QpAttribute::DestQpn |
       QpAttribute::RqPsn | (responds ? as_responder : QpAttributeMask{}));
  attributes.state = hca::QpState::Rts;
  attributes.sq_psn = Psn{static_cast<std::uint32_t>(seed_ * 77)};
  attributes.timeout = TimeoutExponent{12};
  attributes.retry_count = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic = 3;
  const QpAttributeMask as_requester =
      QpAttributeMask{QpAttribute::RetryCount} | QpAttribute::RnrRetry | QpAttribute::MaxQpRdAtomic;
  QpAttributeMask second_path;
  if (second_other_ != Lid{}) {
    attributes.alternate_address.dlid = second_other_;
    attributes.alternate_port = PortNumber{2};
    attributes.alternate_timeout = attributes.timeout;
    attributes.migration = hca::MigrationState::Rearm;
    second_path = QpAttributeMask{QpAttribute::AlternatePath} | QpAttribute::PathMigrationState;
  }
  step(QpAttributeMask{QpAttribute::SqPsn} | QpAttribute::Timeout | second_path |
       (requests ? as_requester : QpAttributeMask{}));
}

bool RcEnd::is_armed() const {
  return qp_->query().migration == hca::MigrationState::Armed &&
         target_->query().migration == hca::MigrationState::Armed;
}

/// Moves both QPs of an XRC end to the error state, as an RC QP fails as a whole.
void RcEnd::fail_qp() {
  failed_ = true;
  if (target_ != qp_) {
    hca::QpAttributes error;
    error.state = hca::QpState::Err;
    for (hca::Qp* const qp : {qp_, target_}) {
      static_cast<void>(qp->modify(error, QpAttribute::State));
    }
  }
}

void RcEnd::act() {
  if (failed_) {
    return;
  }
  if (moves_memory_ && left_ != 0 && in_flight_.empty() && peer_->in_flight_.empty() &&
      random_.chance(1, 8)) {
    move_memory();
  }
  if (random_.chance(1, 2) && receives_posted_ - receives_done_ < kQueueDepth) {
    post_receive();
  }
  if (left_ != 0 && in_flight_.size() < kQueueDepth && random_.chance(1, 2)) {
    post_operation();
  }
}

void RcEnd::move_memory() {
  if (left_memory_.empty()) {
    left_memory_.resize(memory_.size());
  }
  check_left_memory();
  std::ranges::copy(memory_, left_memory_.begin());
  std::swap(memory_, left_memory_);
  durable_.add(memory_);
  const auto moved =
      hca_.reregister_memory(*region_, pd_, region_->iova,
                             std::span{memory_}.first(MemoryPlan::kRegisteredEnd), region_->access);
  if (!moved) {
    report_failure("rereg_mr: " + moved.error().reason);
    return;
  }
  region_ = *moved;
  has_left_memory_ = true;
  std::ranges::fill(left_memory_, kLeft);
}

void RcEnd::post_receive() {
  const std::size_t at = slot_at(MemoryPlan::kReceiveAt, receives_posted_ % MemoryPlan::kSlots);
  const std::uint32_t first = static_cast<std::uint32_t>(random_.below(MemoryPlan::kSlot));
  const std::array sges{
      hca::Sge{.address = region_->iova + at,         .length = first,          .lkey = region_->lkey},
      hca::Sge{.address = region_->iova + at + first,
               .length = static_cast<std::uint32_t>(MemoryPlan::kSlot) - first,
               .lkey = region_->lkey                                                                 }
  };
  const hca::RecvWr wr{.wr_id = receives_posted_, .sges = sges};
  const auto posted = xrc_srq_ != nullptr ? xrc_srq_->post(wr) : qp_->post_recv(wr);
  if (!posted) {
    report_failure("post_recv: " + posted.error().reason);
    return;
  }
  ++receives_posted_;
}

RcEnd::Operation RcEnd::choose_operation() {
  static constexpr std::array kKinds = {WrOpcode::Send,      WrOpcode::Send,
                                        WrOpcode::RdmaWrite, WrOpcode::SendWithImmediate,
                                        WrOpcode::RdmaWrite, WrOpcode::RdmaWriteWithImmediate,
                                        WrOpcode::RdmaRead,  WrOpcode::RdmaRead,
                                        WrOpcode::FetchAdd,  WrOpcode::CompareSwap,
                                        WrOpcode::Flush,     WrOpcode::Flush};
  Operation operation;
  operation.number = next_number_++;
  operation.opcode = kKinds[random_.below(kKinds.size())];
  if (is_atomic(operation.opcode) && !peer_->takes_atomics_) {
    operation.opcode = WrOpcode::RdmaRead;
  }
  operation.slot = operation.number % MemoryPlan::kSlots;
  operation.length = static_cast<std::uint32_t>(
      random_.below(random_.chance(1, 8) ? kInlineBytes : max_message_bytes_ + 1));
  // At least every third operation is signaled, because unsignaled WQEs only leave the queue when a
  // later completion is polled.
  operation.signaled = random_.chance(3, 4) || left_ == 0 || operation.number % 3 == 0;
  operation.must_fail = left_ == 0 && random_.chance(1, 3);
  if (operation.must_fail) {
    choose_failure(operation);
  } else if (is_atomic(operation.opcode)) {
    operation.length = 8;
    operation.sequence = word_;
  } else if (operation.opcode == WrOpcode::RdmaRead) {
    operation.read_offset = random_.below(MemoryPlan::kSlot);
  } else if (operation.opcode == WrOpcode::Flush) {
    return choose_flush(operation);
  } else if (takes_receive(operation.opcode)) {
    operation.sequence = messages_posted_++;
    under_way_.push_back(
        {.opcode = operation.opcode, .number = operation.number, .length = operation.length});
  }
  return operation;
}

/// A WRITE beyond the region, or an atomic.
void RcEnd::choose_failure(Operation& operation) const {
  const bool adds = tries_bad_atomics_ && (!peer_->takes_atomics_ || operation.number % 2 == 0);
  operation.opcode = adds ? WrOpcode::FetchAdd : WrOpcode::RdmaWrite;
  operation.length = adds ? hca::kAtomicBytes : 100;
}

/// Of a WRITE so young that no other has its slot before the FLUSH is done; without one there is
/// nothing to flush, and the operation is a READ of nothing.
RcEnd::Operation RcEnd::choose_flush(Operation operation) {
  constexpr std::uint64_t kYoung = MemoryPlan::kSlots - kQueueDepth;
  operation.length = 0;
  if (!last_write_ || operation.number - last_write_->number > kYoung) {
    operation.opcode = WrOpcode::RdmaRead;
    return operation;
  }
  operation.flushed = *last_write_;
  operation.persists = random_.chance(3, 4);
  return operation;
}

std::size_t RcEnd::local_at(const Operation& operation) const {
  switch (operation.opcode) {
    case WrOpcode::RdmaRead:
      return slot_at(MemoryPlan::kReadAt, operation.slot);
    case WrOpcode::FetchAdd:
    case WrOpcode::CompareSwap:
      return MemoryPlan::kResultAt + operation.slot * 64;
    default:
      return slot_at(MemoryPlan::kSendAt, operation.slot);
  }
}

/// In the peer's memory, of a WRITE, READ or atomic.
std::size_t RcEnd::remote_at(const Operation& operation) const {
  if (is_atomic(operation.opcode)) {
    const bool is_odd = operation.must_fail && peer_->takes_atomics_;
    return MemoryPlan::kWordAt + (is_odd ? hca::kAtomicBytes / 2 : 0);
  }
  if (operation.must_fail) {
    return MemoryPlan::kRegisteredEnd - 50;
  }
  return operation.opcode == WrOpcode::RdmaRead ? MemoryPlan::kSourceAt + operation.read_offset
                                                : slot_at(MemoryPlan::kWriteAt, operation.slot);
}

/// Selects the peer's address and the operands.
void RcEnd::aim(Operation& operation, hca::SendWr& wr) {
  wr.rkey = peer_->region_->rkey;
  wr.immediate = static_cast<std::uint32_t>(operation.sequence);
  std::size_t remote = remote_at(operation);
  if (operation.must_fail) {
    wr.compare_add = 1;
  } else if (operation.opcode == WrOpcode::FetchAdd) {
    wr.compare_add = 1 + random_.below(1000);
    word_ += wr.compare_add;
  } else if (operation.opcode == WrOpcode::CompareSwap) {
    const bool matches = random_.chance(3, 4);
    wr.compare_add = matches ? word_ : word_ + 1;
    wr.swap = random_();
    word_ = matches ? wr.swap : word_;
  }
  if (operation.opcode == WrOpcode::Flush) {
    remote = slot_at(MemoryPlan::kWriteAt, operation.flushed.number % MemoryPlan::kSlots);
    const std::uint8_t global = !operation.persists || random_.chance(1, 2) ? 1 : 0;
    const bool is_range = random_.chance(3, 4);
    wr.flush = {
        .length = operation.flushed.length,
        .placement = static_cast<std::uint8_t>(global | (operation.persists ? 2 : 0)),
        .selectivity = is_range ? wire::FlushSelectivity::Range : wire::FlushSelectivity::Region};
  }
  wr.remote_address = peer_->region_->iova + remote;
}

void RcEnd::post_operation() {
  --left_;
  Operation operation = choose_operation();
  hca::SendWr wr;
  wr.wr_id = operation.number;
  wr.opcode = operation.opcode;
  aim(operation, wr);
  if (is_send(operation.opcode)) {
    fill(local_at(operation), operation.length, kSendStream, operation.number);
  } else if (is_write(operation.opcode)) {
    last_write_ = {.number = operation.number, .length = operation.length};
    fill(local_at(operation), operation.length, kWriteStream, operation.number);
  }
  expects_failure_ = expects_failure_ || operation.must_fail;
  post(operation, wr);
}

void RcEnd::post(const Operation& operation, hca::SendWr& wr) {
  if (operation.signaled) {
    wr.flags |= hca::Send::Signaled;
  }
  if (random_.chance(1, 5)) {
    wr.flags |= hca::Send::Fence;
  }
  const std::size_t local = local_at(operation);
  const bool carries_data = is_send(operation.opcode) || is_write(operation.opcode);
  const bool is_inline = carries_data && operation.length <= kInlineBytes && random_.chance(1, 2);
  std::uint64_t address = region_->iova + local;
  if (is_inline) {
    wr.flags |= hca::Send::Inline;
    address = std::bit_cast<std::uint64_t>(&memory_[local]);
  }
  const std::uint32_t first = is_atomic(operation.opcode) ? 0 : operation.length / 2;
  const std::array sges{
      hca::Sge{.address = address,         .length = first,                    .lkey = region_->lkey},
      hca::Sge{
               .address = address + first, .length = operation.length - first, .lkey = region_->lkey}
  };
  wr.sges = operation.opcode == WrOpcode::Flush
                ? std::span<const hca::Sge>{}
                : std::span{sges}.last(is_atomic(operation.opcode) ? 1 : 2);
  wr.xrc_srqn = peer_->xrc_srq_ != nullptr ? peer_->xrc_srq_->xrc().number : 0;
  if (const auto posted = qp_->post_send(wr); !posted) {
    report_failure("post_send: " + posted.error().reason);
    return;
  }
  if (is_inline) {  // inline data was copied: the buffer can be reused
    std::memset(&memory_[local], 0, operation.length);
  }
  in_flight_.push_back(operation);
}

void RcEnd::poll() {
  std::array<hca::Wc, 16> completions;
  for (std::size_t i = 0, count = send_cq_->poll(completions); i < count; ++i) {
    check_completion(completions[i]);
  }
  for (std::size_t i = 0, count = recv_cq_->poll(completions); i < count; ++i) {
    check_receive(completions[i]);
  }
}

std::uint64_t RcEnd::recv_cq_unpolled() const { return recv_cq_->size(); }

void RcEnd::report_failure(const std::string& what) {
  verdict_.fail(fmt::format("LID {} QP {:#x}: {}", own_.value(), qp_->number().value(), what));
}

}  // namespace weft::sim
