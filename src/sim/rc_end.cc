#include "sim/rc_end.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "sim/outcome.h"
#include "verbs/mtu.h"

namespace weft::sim {
namespace {

using hca::QpAttribute;
using hca::QpAttributeMask;
using hca::WcStatus;
using hca::WrOpcode;

enum Stream : std::uint64_t {
  kSendStream = 1,
  kWriteStream = 2,
  kSourceStream = 3,
  kGuardStream = 4
};

constexpr std::byte kLeft{0xA5};  // all of the memory that a region had before

constexpr std::uint32_t kQueueDepth =
    6;  // fewer than slots, so that a slot is free when it is used again

constexpr std::uint32_t kInlineBytes = 64;

bool is_send(WrOpcode opcode) {
  return opcode == WrOpcode::Send || opcode == WrOpcode::SendWithImmediate;
}
bool is_write(WrOpcode opcode) {
  return opcode == WrOpcode::RdmaWrite || opcode == WrOpcode::RdmaWriteWithImmediate;
}
bool is_atomic(WrOpcode opcode) {
  return opcode == WrOpcode::FetchAdd || opcode == WrOpcode::CompareSwap;
}
bool takes_receive(WrOpcode opcode) {
  return is_send(opcode) || opcode == WrOpcode::RdmaWriteWithImmediate;
}

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
                      hca::Access::RemoteAtomic | hca::Access::FlushGlobal |
                      hca::Access::FlushPersistent;
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

void RcEnd::check_left_memory() {
  if (has_left_memory_ &&
      std::ranges::any_of(left_memory_, [](std::byte each) { return each != kLeft; })) {
    report_failure("memory was written after its region had other memory");
  }
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
  operation.slot = operation.number % MemoryPlan::kSlots;
  operation.length = static_cast<std::uint32_t>(
      random_.below(random_.chance(1, 8) ? kInlineBytes : max_message_bytes_ + 1));
  // At least every third operation is signaled, because unsignaled WQEs only leave the queue when a
  // later completion is polled.
  operation.signaled = random_.chance(3, 4) || left_ == 0 || operation.number % 3 == 0;
  operation.must_fail = left_ == 0 && random_.chance(1, 3);
  if (operation.must_fail) {
    operation.opcode = WrOpcode::RdmaWrite;
    operation.length = 100;
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

/// In the peer's memory, of a WRITE or READ.
std::size_t RcEnd::remote_at(const Operation& operation) const {
  return operation.opcode == WrOpcode::RdmaRead ? MemoryPlan::kSourceAt + operation.read_offset
                                                : slot_at(MemoryPlan::kWriteAt, operation.slot);
}

void RcEnd::check_order(const hca::PlacementTarget& target) {
  const std::size_t remote = target.address - peer_->region_->iova;
  for (const Operation& operation : in_flight_) {
    const bool is_same_kind = target.is_read ? operation.opcode == WrOpcode::RdmaRead
                                             : operation.opcode == WrOpcode::RdmaWrite;
    if (is_same_kind && remote_at(operation) == remote) {
      return;
    }
    check_success(operation);
  }
}

/// Selects the peer's address and the operands.
void RcEnd::aim(Operation& operation, hca::SendWr& wr) {
  wr.rkey = peer_->region_->rkey;
  wr.immediate = static_cast<std::uint32_t>(operation.sequence);
  std::size_t remote = remote_at(operation);
  if (operation.must_fail) {
    remote = MemoryPlan::kRegisteredEnd - 50;
  } else if (operation.opcode == WrOpcode::FetchAdd) {
    remote = MemoryPlan::kWordAt;
    wr.compare_add = 1 + random_.below(1000);
    word_ += wr.compare_add;
  } else if (operation.opcode == WrOpcode::CompareSwap) {
    remote = MemoryPlan::kWordAt;
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

void RcEnd::check_completion(const hca::Wc& wc) {
  ++completions_;
  digest_ = (digest_ ^ wc.wr_id ^ static_cast<std::uint64_t>(wc.status) << 32) * 0x100'0000'01B3;
  // Skips unsignaled WQEs that succeeded.
  while (!in_flight_.empty() && in_flight_.front().number != wc.wr_id &&
         !in_flight_.front().signaled && !failed_) {
    check_success(in_flight_.front());
    in_flight_.pop_front();
  }
  if (in_flight_.empty() || in_flight_.front().number != wc.wr_id) {
    report_failure(fmt::format("completion of WQE {} out of order, twice, or of none", wc.wr_id));
    return;
  }
  const Operation operation = in_flight_.front();
  in_flight_.pop_front();
  if (wc.status == WcStatus::Success) {
    if (!operation.signaled) {
      report_failure("an unsignaled WQE completed with success");
    }
    if (operation.must_fail) {
      report_failure("a WRITE beyond the region succeeded");
    }
    check_success(operation);
    return;
  }
  const bool may_fail = expects_failure_ || peer_may_be_silent_ || peer_->expects_failure_;
  // The NAK may be lost, and a responder in the error state does not answer: the retries run out.
  const bool is_refusal =
      wc.status == WcStatus::RemoteAccessError || wc.status == WcStatus::RetryExceeded;
  if (!failed_ && operation.must_fail && !is_refusal && !peer_may_be_silent_ &&
      !peer_->expects_failure_) {
    report_failure(fmt::format("a WRITE beyond the region ended in status {}",
                               static_cast<unsigned>(wc.status)));
  }
  if (failed_ && wc.status != WcStatus::WorkRequestFlushed) {
    report_failure("a second WQE ended in an error other than flush");
  }
  if (!may_fail) {
    report_failure(fmt::format("WQE {} ended in status {} without cause", wc.wr_id,
                               static_cast<unsigned>(wc.status)));
  }
  fail_qp();
}

/// A completion implies that the operation has taken effect at the peer.
void RcEnd::check_success(const Operation& operation) {
  if (takes_receive(operation.opcode)) {
    const std::uint64_t arrived = peer_->messages_received_ + peer_->recv_cq_unpolled();
    if (arrived <= operation.sequence) {
      report_failure("a message completed before it arrived");
    }
  }
  if (is_write(operation.opcode) && !holds(*peer_, slot_at(MemoryPlan::kWriteAt, operation.slot),
                                           operation.length, kWriteStream, operation.number)) {
    report_failure("a WRITE completed, and its data is not in place");
  }
  if (operation.opcode == WrOpcode::Flush && operation.persists && !is_kept(operation)) {
    report_failure("a FLUSH completed, and the WRITE before it would not outlive the power");
  }
  if (operation.opcode == WrOpcode::RdmaRead) {
    for (std::size_t i = 0; i < operation.length; ++i) {
      if (memory_[local_at(operation) + i] !=
          peer_->pattern(kSourceStream, 0, operation.read_offset + i)) {
        report_failure("a READ brought wrong data");
        break;
      }
    }
  }
  if (is_atomic(operation.opcode) && word_of(*this, local_at(operation)) != operation.sequence) {
    report_failure("an atomic returned another original than it must");
  }
}

bool RcEnd::is_kept(const Operation& flush) const {
  const std::uint64_t number = flush.flushed.number;
  const std::size_t at = slot_at(MemoryPlan::kWriteAt, number % MemoryPlan::kSlots);
  for (std::size_t i = 0; i < flush.flushed.length; ++i) {
    if (peer_->durable_.kept(&peer_->memory_[at + i]) != pattern(kWriteStream, number, i)) {
      return false;
    }
  }
  return true;
}

void RcEnd::check_receive(const hca::Wc& wc) {
  ++completions_;
  digest_ =
      (digest_ ^ wc.wr_id << 8 ^ static_cast<std::uint64_t>(wc.status) << 40) * 0x100'0000'01B3;
  if (wc.wr_id != receives_done_) {
    report_failure(fmt::format("receive WQE {} completed, {} was next", wc.wr_id, receives_done_));
    return;
  }
  ++receives_done_;
  if (wc.status != WcStatus::Success) {
    if (!expects_failure_ && !peer_may_be_silent_ && !peer_->expects_failure_) {
      report_failure(fmt::format("a receive ended in status {} without cause",
                                 static_cast<unsigned>(wc.status)));
    }
    fail_qp();
    return;
  }
  if (peer_->under_way_.empty()) {
    report_failure("a message arrived that nobody sent, or one that arrived before");
    return;
  }
  const Message message = peer_->under_way_.front();
  peer_->under_way_.pop_front();
  const bool is_write = message.opcode == WrOpcode::RdmaWriteWithImmediate;
  const std::size_t at = is_write
                             ? slot_at(MemoryPlan::kWriteAt, message.number % MemoryPlan::kSlots)
                             : slot_at(MemoryPlan::kReceiveAt, wc.wr_id % MemoryPlan::kSlots);
  if (wc.byte_length != message.length) {
    report_failure(
        fmt::format("a message of {} bytes arrived with {}", message.length, wc.byte_length));
  } else if (!peer_->holds(*this, at, message.length, is_write ? kWriteStream : kSendStream,
                           message.number)) {
    report_failure("a message arrived with other bytes than were sent, or out of order");
  }
  if (wc.flags.has(hca::Completion::WithImmediate) != (message.opcode != WrOpcode::Send)) {
    report_failure("a message arrived with an immediate and was sent without, or the reverse");
  } else if (message.opcode != WrOpcode::Send &&
             wc.immediate != static_cast<std::uint32_t>(messages_received_)) {
    report_failure("a message arrived with another's immediate");
  }
  ++messages_received_;
}

std::uint64_t RcEnd::recv_cq_unpolled() const { return recv_cq_->size(); }

void RcEnd::check_at_end(bool peer_alive) {
  if (!is_finished()) {
    report_failure(fmt::format("stuck: {} WQEs never completed, {} operations were never posted",
                               in_flight_.size(), left_));
  }
  const auto guard_is_whole = [&](std::size_t from, std::size_t to) {
    for (std::size_t i = from; i < to; ++i) {
      if (memory_[i] != pattern(kGuardStream, 0, i)) {
        report_failure(fmt::format("byte {} outside every message was written", i));
        return;
      }
    }
  };
  check_left_memory();
  guard_is_whole(0, MemoryPlan::kGuard);
  for (const std::size_t base :
       {MemoryPlan::kReceiveAt, MemoryPlan::kWriteAt, MemoryPlan::kReadAt}) {
    for (std::size_t slot = 0; slot < MemoryPlan::kSlots; ++slot) {
      guard_is_whole(slot_at(base, slot) + MemoryPlan::kSlot, slot_at(base, slot + 1));
    }
  }
  guard_is_whole(MemoryPlan::kRegisteredEnd, MemoryPlan::kSize);
  if (peer_alive && !failed_ && !peer_->failed_ && word_of(*peer_, MemoryPlan::kWordAt) != word_) {
    report_failure("the word at the peer is not what the atomics made of it");
  }
}

void RcEnd::report_failure(const std::string& what) {
  verdict_.fail(fmt::format("LID {} QP {:#x}: {}", own_.value(), qp_->number().value(), what));
}

}  // namespace weft::sim
