// What the end of an RC connection finds out: whether each operation has done what it must, and
// nothing else.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/rc_end.h"
#include "sim/rc_kinds.h"

namespace weft::sim {

using hca::WcStatus;
using hca::WrOpcode;

void RcEnd::check_order(const hca::PlacementTarget& target) {
  const std::size_t remote = target.address - peer_->region_->iova;
  for (const Operation& operation : in_flight_) {
    if (is_for(operation.opcode, target.right) && remote_at(operation) == remote) {
      return;
    }
    check_success(operation);
  }
}

void RcEnd::check_left_memory() {
  if (has_left_memory_ &&
      std::ranges::any_of(left_memory_, [](std::byte each) { return each != kLeft; })) {
    report_failure("memory was written after its region had other memory");
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
      report_failure("an operation that must fail succeeded");
    }
    check_success(operation);
    return;
  }
  const bool may_fail = expects_failure_ || peer_may_be_silent_ || peer_->expects_failure_;
  // The NAK may be lost, and a responder in the error state does not answer: the retries run out.
  const bool is_refusal =
      wc.status == (is_atomic(operation.opcode) ? WcStatus::RemoteInvalidRequest
                                                : WcStatus::RemoteAccessError) ||
      wc.status == WcStatus::RetryExceeded;
  if (!failed_ && operation.must_fail && !is_refusal && !peer_may_be_silent_ &&
      !peer_->expects_failure_) {
    report_failure(fmt::format("an operation that must fail ended in status {}",
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

}  // namespace weft::sim
