#include "hca/work_queue.h"

#include <mutex>

namespace weft::hca {
namespace {

[[nodiscard]] bool is_transition(WorkQueueState from, WorkQueueState to) {
  switch (to) {
    case WorkQueueState::Reset:
      return true;
    case WorkQueueState::Ready:
      return from == WorkQueueState::Reset;
    case WorkQueueState::Error:
      return from == WorkQueueState::Ready;
  }
  return false;
}

}  // namespace

WorkQueue::WorkQueue(const Init& init, Qpn number, LockPolicy policy)
    : lock_(policy), init_(init), number_(number), queue_(init.depth, init.max_sge) {
  current_.list = ScatterList{init.max_sge};
}

Result<void> WorkQueue::post(const RecvWr& wr) {
  const std::lock_guard guard{lock_};
  if (state_ == WorkQueueState::Reset) {
    return fail(ErrorCode::InvalidArgument,
                "work queue {:#x} is in RESET: make it ready before posting receives",
                number_.value());
  }
  auto pushed = queue_.push(wr);
  if (pushed && state_ == WorkQueueState::Error) {
    flush();
  }
  return pushed;
}

Result<void> WorkQueue::modify(std::optional<WorkQueueState> from, WorkQueueState to) {
  const std::lock_guard guard{lock_};
  if ((from && *from != state_) || !is_transition(state_, to)) {
    return fail(ErrorCode::InvalidArgument,
                "work queue {:#x}: no way from state {} to {} (0 RESET, 1 READY, 2 ERROR)",
                number_.value(), static_cast<int>(state_), static_cast<int>(to));
  }
  state_ = to;
  if (to == WorkQueueState::Error) {
    flush();
  } else if (to == WorkQueueState::Reset) {
    queue_.clear();
    has_current_ = false;
    init_.cq->remove(number_);
  }
  return {};
}

WorkQueueState WorkQueue::state() {
  const std::lock_guard guard{lock_};
  return state_;
}

void WorkQueue::flush() {
  while (has_current_ || queue_.take(current_)) {
    has_current_ = false;
    Wc wc;
    wc.wr_id = current_.wr_id;
    wc.status = WcStatus::WorkRequestFlushed;
    wc.opcode = WcOpcode::Receive;
    wc.qpn = number_;
    init_.cq->push(wc, false);
  }
}

}  // namespace weft::hca
