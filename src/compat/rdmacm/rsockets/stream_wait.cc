#include "compat/rdmacm/rsockets/stream_wait.h"

#include <poll.h>

#include <cerrno>
#include <chrono>

#include "compat/rdmacm/ids.h"

namespace weft::rsockets {

/// Processes completion notifications and the id's events. Called by one waiting thread at a time.
void Stream::process_completions() {
  if (cm_->recv_cq_channel != nullptr) {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    if (ibv_get_cq_event(cm_->recv_cq_channel, &cq, &context) == 0) {
      ibv_ack_cq_events(cq, 1);
    }
  }
  if (!is_connected()) {
    return;
  }
  compat::Id& id = compat::id_of(cm_);
  const int result = compat::complete(id);
  if (cm_->event != nullptr && (result == 0 || errno != EAGAIN) &&
      cm_->event->event == RDMA_CM_EVENT_DISCONNECTED) {
    take_completions();  // completions that preceded the request
    engine_.take_disconnect();
  }
}

/// Waits, with the lock released, for the device or the connection.
void Stream::wait_for_completions(Lock& lock) {
  if (has_waiter_) {
    completions_processed_.wait_for(lock, std::chrono::milliseconds{kRepollMs});
    return;
  }
  pollfd descriptors[] = {
      {.fd = cm_->recv_cq_channel->fd, .events = POLLIN, .revents = 0},
      {.fd = fd_,                      .events = POLLIN, .revents = 0}
  };
  has_waiter_ = true;
  lock.unlock();
  poll(descriptors, std::size(descriptors), kRepollMs);
  lock.lock();
  has_waiter_ = false;
  process_completions();
  completions_processed_.notify_all();
}

short Stream::readiness(short events) {
  const Lock lock{lock_};
  if (state_ == State::Fresh || state_ == State::Bound) {
    return 0;
  }
  if (state_ == State::Listening) {
    pollfd requests{.fd = fd_, .events = events, .revents = 0};
    poll(&requests, 1, 0);
    return requests.revents;
  }
  if (is_opening() && open_further_at_once() != 0 && is_opening()) {
    return 0;
  }
  process_completions();
  take_completions();
  grant();
  const bool is_over = !is_connected();
  int ready = (engine_.has_arrived() || !engine_.may_read() ? POLLIN : 0) |
              (engine_.may_send() || is_over ? POLLOUT : 0);
  ready &= events;
  // A program that stops at POLLHUP (rstream does) would lose the data that arrived before it.
  const bool has_more = (ready & POLLIN) != 0 && engine_.has_arrived();
  if (is_over && !has_more) {
    const bool has_ended = engine_.phase() == Phase::Disconnected || state_ == State::Closed;
    ready |= has_ended ? POLLHUP : POLLERR;
  }
  return static_cast<short>(ready);
}

void Stream::watch(short events, std::vector<pollfd>& descriptors) {
  const Lock lock{lock_};
  descriptors.push_back({.fd = fd_,
                         .events = static_cast<short>(state_ == State::Listening ? events : POLLIN),
                         .revents = 0});
  if (is_connected()) {
    ibv_req_notify_cq(cm_->recv_cq, 0);
    descriptors.push_back({.fd = cm_->recv_cq_channel->fd, .events = POLLIN, .revents = 0});
  }
}

void Stream::unwatch() {
  const Lock lock{lock_};
  if (is_connected()) {
    process_completions();
    take_completions();
  }
  completions_processed_.notify_all();
}

}  // namespace weft::rsockets
