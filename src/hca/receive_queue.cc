#include "hca/receive_queue.h"

#include <algorithm>
#include <bit>
#include <mutex>
#include <utility>

namespace weft::hca {

ReceiveQueue::ReceiveQueue(std::uint32_t depth, std::uint32_t max_sge)
    : ring_(std::bit_ceil(depth)),
      mask_(std::bit_ceil(depth) - 1),
      depth_(depth),
      max_sge_(max_sge) {
  for (ReceiveWqe& wqe : ring_) {
    wqe.list = ScatterList{max_sge};
  }
}

Result<void> ReceiveQueue::push(const RecvWr& wr) {
  if (wr.sges.size() > max_sge_) {
    return fail(ErrorCode::InvalidArgument, "a receive with {} SGEs, the queue allows {}",
                wr.sges.size(), max_sge_);
  }
  if (size_ == depth_) {
    return fail(ErrorCode::OutOfMemory, "the receive queue is full: all {} WQEs wait for messages",
                depth_);
  }
  ReceiveWqe& wqe = at(head_ + size_);
  wqe.wr_id = wr.wr_id;
  wqe.list.assign(wr.sges);
  std::uint64_t length = 0;
  for (const Sge& sge : wr.sges) {
    length += sge.length;
  }
  wqe.length = static_cast<std::uint32_t>(std::min<std::uint64_t>(length, 0xFFFF'FFFF));
  ++size_;
  return {};
}

bool ReceiveQueue::take(ReceiveWqe& into) {
  if (size_ == 0) {
    return false;
  }
  ReceiveWqe& wqe = at(head_);
  into.wr_id = wqe.wr_id;
  into.length = wqe.length;
  if (into.list.most() < max_sge_) {
    into.list = ScatterList{max_sge_};  // kept from now on: the taker's storage never shrinks
  }
  if (into.list.most() == max_sge_) {
    std::swap(into.list, wqe.list);
  } else {
    into.list.assign(wqe.list.sges());
  }
  ++head_;
  --size_;
  return true;
}

std::uint32_t ReceiveQueue::size() const { return size_; }
std::uint32_t ReceiveQueue::depth() const { return depth_; }
std::uint32_t ReceiveQueue::max_sge() const { return max_sge_; }
void ReceiveQueue::clear() { head_ = size_ = 0; }

void ReceiveQueue::move_to(ReceiveQueue& other) {
  ReceiveWqe wqe;
  while (take(wqe)) {
    const auto pushed = other.push({.wr_id = wqe.wr_id, .sges = wqe.list.sges()});
    static_cast<void>(pushed);  // the caller made `other` large enough
  }
}

SharedReceiveQueue::SharedReceiveQueue(ProtectionDomain& pd, std::uint32_t depth,
                                       std::uint32_t max_sge, std::uint32_t limit,
                                       LockPolicy policy, HcaEvents& events, const XrcSrqInit& xrc)
    : lock_(policy), pd_(pd), events_(events), queue_(depth, max_sge), limit_(limit), xrc_(xrc) {}

Result<void> SharedReceiveQueue::post(const RecvWr& wr) {
  const std::lock_guard guard{lock_};
  if (in_error_) {
    return fail(ErrorCode::InvalidArgument,
                "the SRQ is in error since the CQ of its receives overran: destroy it");
  }
  return queue_.push(wr);
}

void SharedReceiveQueue::enter_error() {
  const std::lock_guard guard{lock_};
  if (!std::exchange(in_error_, true)) {
    events_.async_event(
        {.type = AsyncEventType::SrqError, .qp = nullptr, .cq = nullptr, .srq = this, .port = {}});
  }
}

bool SharedReceiveQueue::is_in_error() {
  const std::lock_guard guard{lock_};
  return in_error_;
}

bool SharedReceiveQueue::take(ReceiveWqe& into) {
  const std::lock_guard guard{lock_};
  if (in_error_ || !queue_.take(into)) {
    return false;
  }
  if (limit_ != 0 && queue_.size() < limit_) {
    limit_ = 0;  // one event per arming (R-RVT-15)
    events_.async_event({.type = AsyncEventType::SrqLimitReached,
                         .qp = nullptr,
                         .cq = nullptr,
                         .srq = this,
                         .port = {}});
  }
  return true;
}

std::uint32_t SharedReceiveQueue::size() {
  const std::lock_guard guard{lock_};
  return queue_.size();
}

Result<void> SharedReceiveQueue::modify(std::optional<std::uint32_t> depth,
                                        std::optional<std::uint32_t> limit) {
  const std::lock_guard guard{lock_};
  const std::uint32_t new_depth = depth.value_or(queue_.depth());
  const std::uint32_t new_limit = limit.value_or(limit_);
  if (new_depth < queue_.size()) {
    return fail(ErrorCode::InvalidArgument, "the SRQ holds {} receives, more than the new depth {}",
                queue_.size(), new_depth);
  }
  if (new_limit > new_depth) {
    return fail(ErrorCode::InvalidArgument, "an SRQ limit of {} exceeds its depth {}", new_limit,
                new_depth);
  }
  if (depth) {
    ReceiveQueue other{new_depth, queue_.max_sge()};
    queue_.move_to(other);
    queue_ = std::move(other);
  }
  limit_ = new_limit;
  return {};
}

std::uint32_t SharedReceiveQueue::limit() {
  const std::lock_guard guard{lock_};
  return limit_;
}
std::uint32_t SharedReceiveQueue::depth() {
  const std::lock_guard guard{lock_};
  return queue_.depth();
}
std::uint32_t SharedReceiveQueue::max_sge() {
  const std::lock_guard guard{lock_};
  return queue_.max_sge();
}

}  // namespace weft::hca
