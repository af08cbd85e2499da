// Connection establishment of a stream: a sequence of steps, each of which ends with an event and
// is restarted on a timeout. Caller must hold the stream's lock.

#include <fcntl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "compat/rdmacm/ids.h"
#include "compat/rdmacm/refusals.h"
#include "compat/rdmacm/rsockets/stream.h"

namespace weft::rsockets {
namespace {

/// As rdma-core's: a step is tried for 1 s, 2 s, ..., and given up after the sixth time.
constexpr int kFirstWaitMs = 1'000;
constexpr int kMaxTries = 6;

constexpr std::uint8_t kMaxRetries = 7;

[[nodiscard]] StreamMemory memory_of(const RegisteredMemory& memory, std::size_t bytes) {
  return {
      .octets = {memory.data(), bytes},
        .address = memory.address(), .key = memory.rkey()
  };
}

}  // namespace

/// Processes the peer's private data; returns 0, or -1 with errno.
int Stream::take_data(const void* private_data, std::size_t bytes) {
  const auto taken = engine_.take_data(
      {static_cast<const std::byte*>(private_data), private_data == nullptr ? 0 : bytes});
  if (!taken) {
    return compat::refuse(taken.error().code == ErrorCode::NotSupported ? EOPNOTSUPP : EPROTO,
                          taken.error().reason);
  }
  return 0;
}

int Stream::create_queue_pair(StreamSizes& sizes) {
  sizes = fitted({.send_depth = options_.send_depth,
                  .receive_depth = options_.receive_depth,
                  .inline_bytes = options_.inline_bytes,
                  .send_bytes = options_.send_bytes,
                  .receive_bytes = options_.receive_bytes,
                  .io_map_entries = options_.io_map_entries},
                 compat::id_of(cm_).device->max_qp_wr);
  options_.send_depth = sizes.send_depth;
  options_.receive_depth = sizes.receive_depth;
  options_.send_bytes = sizes.send_bytes;
  options_.receive_bytes = sizes.receive_bytes;
  if (create_queues(*cm_, options_.send_depth + options_.receive_depth) != 0) {
    return -1;
  }
  ibv_qp_init_attr wish{};
  wish.qp_type = IBV_QPT_RC;
  wish.sq_sig_all = 1;
  wish.send_cq = wish.recv_cq = cm_->recv_cq;
  wish.cap.max_send_wr = options_.send_depth;
  wish.cap.max_recv_wr = options_.receive_depth;
  wish.cap.max_send_sge = wish.cap.max_recv_sge = 1;
  wish.cap.max_inline_data = sizes.inline_bytes;
  if (rdma_create_qp(cm_, nullptr, &wish) != 0) {
    return -1;
  }
  sizes.inline_bytes = wish.cap.max_inline_data;
  return 0;
}

int Stream::create_endpoint() {
  StreamSizes sizes;
  if (create_queue_pair(sizes) != 0) {
    return -1;
  }
  constexpr int kWritable = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  if (send_memory_.make(cm_->pd, sizes.send_bytes, IBV_ACCESS_LOCAL_WRITE) != 0 ||
      receive_memory_.make(cm_->pd, sizes.receive_bytes, kWritable) != 0 ||
      targets_.make(cm_->pd, targets_bytes(sizes), kWritable) != 0) {
    return -1;
  }
  engine_.open(sizes, memory_of(send_memory_, sizes.send_bytes),
               memory_of(receive_memory_, sizes.receive_bytes),
               memory_of(targets_, targets_bytes(sizes)));
  for (std::uint32_t i = 0; i < sizes.receive_depth; ++i) {
    if (const int error = post_receive(); error != 0) {
      errno = error;
      return -1;
    }
  }
  return 0;
}

int Stream::request_connection() {
  if (create_endpoint() != 0) {
    return -1;
  }
  const auto data = wire::pack(engine_.own_data());
  rdma_conn_param wish{};
  wish.private_data = data.data();
  wish.private_data_len = static_cast<std::uint8_t>(data.size());
  wish.flow_control = 1;
  wish.retry_count = wish.rnr_retry_count = kMaxRetries;
  return rdma_connect(cm_, &wish);
}

/// For a stream created by a connection request, whose event is the id's last one.
int Stream::answer_request() {
  const rdma_conn_param& asked = cm_->event->param.conn;
  if (create_endpoint() != 0 || take_data(asked.private_data, asked.private_data_len) != 0) {
    return -1;
  }
  const auto data = wire::pack(engine_.own_data());
  rdma_conn_param answer = asked;
  answer.private_data = data.data();
  answer.private_data_len = static_cast<std::uint8_t>(data.size());
  return rdma_accept(cm_, &answer);
}

/// Starts the step of the present state.
int Stream::start_step() {
  const int wait_ms = kFirstWaitMs << tries_;
  ++tries_;
  switch (state_) {
    case State::ResolvingAddress:
      return rdma_resolve_addr(cm_, nullptr, &cm_->route.addr.dst_addr, wait_ms);
    case State::ResolvingRoute:
      if (options_.route.empty()) {
        return rdma_resolve_route(cm_, wait_ms);
      }
      if (rdma_set_option(cm_, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, options_.route.data(),
                          options_.route.size()) != 0) {
        return -1;
      }
      return compat::complete(compat::id_of(cm_));
    case State::Connecting:
      return request_connection();
    case State::Accepting:
      return answer_request();
    default:
      return compat::refuse(EINVAL, "the stream is in no state to be connected");
  }
}

/// Finishes a step: 0 if the stream is connected, 1 if another step follows, -1 with errno.
int Stream::finish_step() {
  tries_ = 0;
  switch (state_) {
    case State::ResolvingAddress:
      state_ = State::ResolvingRoute;
      return 1;
    case State::ResolvingRoute:
      state_ = State::Connecting;
      return 1;
    case State::Connecting: {
      const rdma_conn_param& answer = cm_->event->param.conn;
      return take_data(answer.private_data, answer.private_data_len) == 0 ? finish_opening() : -1;
    }
    default:
      return finish_opening();
  }
}

int Stream::finish_opening() {
  state_ = State::Opened;
  engine_.connect();
  grant();  // the second half
  // From now on the id's channel is only polled for events of the connection.
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
  return 0;
}

/// The same without waiting for events.
int Stream::open_further_at_once() {
  const int flags = fcntl(fd_, F_GETFL);
  fcntl(fd_, F_SETFL, flags | O_NONBLOCK);
  const int result = open_further();
  if (!is_connected()) {
    fcntl(fd_, F_SETFL, flags);
  }
  return result;
}

/// Proceeds as far as possible: 0 if the stream is connected; -1 with EAGAIN if an event is
/// pending.
int Stream::open_further() {
  while (is_opening()) {
    int result = step_in_progress_ ? compat::complete(compat::id_of(cm_)) : start_step();
    if (result != 0 && errno == EAGAIN) {
      step_in_progress_ = true;
      return -1;
    }
    step_in_progress_ = false;
    if (result != 0 && errno == ETIMEDOUT && tries_ <= kMaxTries &&
        (state_ == State::ResolvingAddress || state_ == State::ResolvingRoute)) {
      continue;
    }
    result = result == 0 ? finish_step() : -1;
    if (result < 0) {
      error_ = errno;
      state_ = State::NeverConnected;
      errno = error_;
      return -1;
    }
  }
  return 0;
}

}  // namespace weft::rsockets
