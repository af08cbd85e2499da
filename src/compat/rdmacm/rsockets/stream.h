#pragma once

// A stream socket over an RC connection (rsocket(7)). Any thread may call anything; one lock a
// stream, which nobody holds while waiting for the other end.
//
// The receiver's buffer has two halves. It publishes a half whenever it is free, and the sender
// fills what is published in order; so what arrives lies one behind the other in a ring. Messages
// are counted: each half of the receive queue that the program has read is granted anew.

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "compat/rdmacm/rsockets/protocol.h"
#include "compat/rdmacm/rsockets/socket.h"

namespace weft::rsockets {

/// A write's first piece; rdma-core's. Pieces double from there.
inline constexpr std::uint32_t kFirstPiece = 2'048;

class Stream final : public Socket {
 public:
  /// Of an id that is synchronous; owns it.
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
    Connected,
    NeverConnected,  // connecting failed
    Disconnected,
    Failed,
  };
  using Lock = std::unique_lock<std::mutex>;

  [[nodiscard]] bool is_opening() const {
    return state_ >= State::ResolvingAddress && state_ <= State::Accepting;
  }
  [[nodiscard]] bool is_connected() const { return state_ == State::Connected; }

  // Opening (stream_open.cc)
  [[nodiscard]] rdma_cm_id* next_request();
  [[nodiscard]] int start_step();
  [[nodiscard]] int open_further();
  [[nodiscard]] int open_further_at_once();
  [[nodiscard]] int finish_step();
  [[nodiscard]] int finish_opening();
  [[nodiscard]] int create_endpoint();
  [[nodiscard]] int create_queue_pair();
  [[nodiscard]] int answer_request();
  [[nodiscard]] int request_connection();
  [[nodiscard]] ConnectionData own_data() const;
  [[nodiscard]] int take_data(const void* private_data, std::size_t bytes);

  // Flow (stream_flow.cc)
  void take_completions();
  void take_message(std::uint32_t message);
  void take_sent(std::uint64_t wr_id);
  void take_data_message(std::uint32_t bytes);
  void take_control(Control control);
  void fail_with(int error);
  [[nodiscard]] int post_receive();
  [[nodiscard]] int post(ibv_send_wr& wr, const void* data, std::uint32_t bytes, bool is_held);
  [[nodiscard]] int post_message(std::uint32_t message);
  [[nodiscard]] int post_data(const std::byte* data, std::uint32_t bytes);
  [[nodiscard]] int post_at(const IoMapEntry& entry, const std::byte* data, std::uint32_t bytes,
                            std::uint64_t offset);
  [[nodiscard]] const std::byte* hold(const std::byte* data, std::uint32_t bytes);
  [[nodiscard]] int post_map_entry(const IoMapEntry& entry, std::uint32_t index, std::uint64_t map);
  [[nodiscard]] std::optional<IoMapEntry> find_map_entry(std::uint64_t offset) const;
  void grant();
  [[nodiscard]] bool has_target();
  [[nodiscard]] bool may_send();
  [[nodiscard]] bool has_room() const;
  [[nodiscard]] std::uint32_t next_piece(std::size_t left, std::uint32_t& wish) const;
  [[nodiscard]] bool all_sent() const;

  // Data (stream_io.cc)
  [[nodiscard]] ssize_t receive(std::byte* out, std::size_t bytes, int flags);
  [[nodiscard]] ssize_t send(const std::byte* data, std::size_t bytes, int flags);

  // Waiting (stream_wait.cc)
  /// 0 when the condition holds; -1 with EAGAIN if the program does not want to wait.
  template <class Condition>
  [[nodiscard]] int wait(Lock& lock, bool waits, Condition condition);
  void wait_for_news(Lock& lock);
  void take_news();
  [[nodiscard]] bool waits(int flags) const {
    return !is_nonblocking_ && (flags & MSG_DONTWAIT) == 0;
  }
  [[nodiscard]] int be_connected();
  // The I/O map (stream_map.cc)
  [[nodiscard]] int send_map_entries(Lock& lock, int flags);

  rdma_cm_id* cm_;
  const int fd_;
  std::mutex lock_;
  std::condition_variable news_;
  bool is_somebody_waiting_{};  // for the device; others wait for `news_`
  bool is_nonblocking_{};
  State state_{State::Fresh};
  bool step_is_under_way_{};  // of opening
  int tries_{};
  int error_{};
  bool may_read_{};
  bool may_write_{};

  // Sending
  RegisteredMemory send_memory_;
  std::uint32_t inline_bytes_{};
  std::uint32_t send_at_{};  // of the ring, where the next octets go
  std::uint32_t send_bytes_free_{};
  std::uint32_t sends_free_{};  // of the send queue, but for messages of our own
  std::uint32_t controls_free_{};
  std::uint16_t sent_{};  // data messages, modulo 2^16
  std::uint16_t may_send_until_{};
  Target target_;  // what is left of the buffer in use
  std::uint32_t next_target_{};

  // Receiving
  RegisteredMemory receive_memory_;
  RegisteredMemory targets_;           // Target[kTargets] of the other end's, then its I/O map
  std::deque<std::uint32_t> arrived_;  // messages, by their octets
  std::uint32_t read_at_{};
  std::uint32_t receive_bytes_free_{};  // neither published nor unread
  std::uint32_t published_bytes_{};     // and not arrived
  std::uint32_t next_half_{1};
  std::uint16_t read_{};  // data messages, modulo 2^16
  std::uint16_t grant_at_{};
  std::uint64_t their_targets_{};  // address of the other end's array
  std::uint32_t their_targets_key_{};
  std::uint32_t their_targets_count_{};
  std::uint32_t their_next_target_{};

  // The I/O map
  struct Mapping {
    ibv_mr* region{};
    std::uint64_t offset{};
    std::optional<std::uint32_t> index;  // in the other end's map; none when it is only local
    bool is_told{};
  };
  std::uint32_t their_map_entries_{};
  std::vector<Mapping> mappings_;
};

}  // namespace weft::rsockets
