#pragma once

// A stream socket over an RC connection (rsocket(7)). Any thread may call any member; each stream
// has one lock, which is never held while waiting for the peer. The protocol is ulp/rsocket's
// StreamEngine; this class has the QP, the waits, and connection establishment.

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "compat/rdmacm/rsockets/socket.h"
#include "ulp/rsocket/stream_engine.h"

namespace weft::rsockets {

/// A socket of SOCK_STREAM.
class Stream final : public Socket {
 public:
  /// Takes ownership of `cm`, a synchronous id.
  Stream(rdma_cm_id* cm, SocketOptions options);
  ~Stream() override;

  [[nodiscard]] int fd() const override { return fd_; }

  [[nodiscard]] int bind(const sockaddr* address) override;
  [[nodiscard]] int listen(int backlog) override;
  [[nodiscard]] std::shared_ptr<Socket> accept() override;
  [[nodiscard]] int connect(const sockaddr* address) override;
  [[nodiscard]] ssize_t receive(std::byte* out, std::size_t bytes, int flags,
                                Sender sender) override;
  [[nodiscard]] ssize_t receive_pieces(std::span<const iovec> pieces, int flags,
                                       Sender sender) override;
  [[nodiscard]] ssize_t send(const std::byte* data, std::size_t bytes, int flags,
                             const sockaddr* to) override;
  [[nodiscard]] ssize_t send_pieces(std::span<const iovec> pieces, int flags,
                                    const sockaddr* to) override;
  int shutdown(int how) override;
  void close() override { shutdown(SHUT_RDWR); }

  [[nodiscard]] off_t map(void* memory, std::size_t bytes, int protection, off_t offset) override;
  [[nodiscard]] int unmap(const void* memory, std::size_t bytes) override;
  [[nodiscard]] ssize_t write_at(const std::byte* data, std::size_t bytes, off_t offset,
                                 int flags) override;

  [[nodiscard]] sockaddr_storage own_address() override;
  [[nodiscard]] sockaddr_storage peer_address() override;
  [[nodiscard]] bool is_nonblocking() override;
  [[nodiscard]] int set_nonblocking(bool nonblocking) override;
  [[nodiscard]] int take_error() override;
  [[nodiscard]] bool is_open() override;
  [[nodiscard]] int set_id_option(int name, int value) override;
  [[nodiscard]] int segment_bytes() override;

  [[nodiscard]] short readiness(short events) override;
  void watch(short events, std::vector<pollfd>& descriptors) override;
  void unwatch() override;

 private:
  enum class State : std::uint8_t {
    Fresh,
    Bound,
    Listening,
    ResolvingAddress,
    ResolvingRoute,
    Connecting,
    Accepting,
    Opened,          // from now on the engine has the state
    NeverConnected,  // connection establishment failed
    Closed,          // closed as a listener
  };
  using Phase = StreamEngine::Phase;
  using Lock = std::unique_lock<std::mutex>;

  [[nodiscard]] bool is_opening() const {
    return state_ >= State::ResolvingAddress && state_ <= State::Accepting;
  }
  [[nodiscard]] bool is_connected() const { return engine_.is_connected(); }
  [[nodiscard]] bool has_failed() const { return engine_.phase() == Phase::Failed; }

  // Opening (stream_open.cc)
  [[nodiscard]] rdma_cm_id* next_request();
  [[nodiscard]] int start_step();
  [[nodiscard]] int open_further();
  [[nodiscard]] int open_further_at_once();
  [[nodiscard]] int finish_step();
  [[nodiscard]] int finish_opening();
  [[nodiscard]] int create_endpoint();
  [[nodiscard]] int create_queue_pair(StreamSizes& sizes);
  [[nodiscard]] int answer_request();
  [[nodiscard]] int request_connection();
  [[nodiscard]] int take_data(const void* private_data, std::size_t bytes);

  // The QP (stream_flow.cc)
  void take_completions();
  void fail_with(int error);
  [[nodiscard]] int post_receive();
  [[nodiscard]] int post(const StreamWrite& write);
  void grant();

  // Data (stream_io.cc)
  [[nodiscard]] ssize_t receive(std::byte* out, std::size_t bytes, int flags);
  [[nodiscard]] ssize_t send(const std::byte* data, std::size_t bytes, int flags);

  // Waiting (stream_wait.cc)
  /// Returns 0 when `condition` holds; -1 with EAGAIN if it does not and `waits` is false.
  template <class Condition>
  [[nodiscard]] int wait(Lock& lock, bool waits, Condition condition);
  void wait_for_completions(Lock& lock);
  void process_completions();
  [[nodiscard]] bool waits(int flags) const {
    return !is_nonblocking_ && (flags & MSG_DONTWAIT) == 0;
  }
  [[nodiscard]] int be_connected();
  // The I/O map (stream_map.cc)
  [[nodiscard]] int send_map_entries(Lock& lock, int flags);

  rdma_cm_id* cm_;
  const int fd_;
  std::mutex lock_;
  std::condition_variable completions_processed_;
  bool has_waiter_{};  // a thread waits on the device; others wait for completions_processed_
  bool is_nonblocking_{};
  State state_{State::Fresh};
  bool step_in_progress_{};  // of connection establishment
  int tries_{};
  int error_{};
  RegisteredMemory send_memory_;
  RegisteredMemory receive_memory_;
  RegisteredMemory targets_;
  StreamEngine engine_;

  std::vector<ibv_mr*> regions_;  // mapped by the program
};

}  // namespace weft::rsockets
