#pragma once

// The operations of rsocket(7), common to stream and datagram sockets. Any thread may call any
// member.

#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/time.h"
#include "compat/rdmacm/abi.h"

namespace weft::rsockets {

/// Policy: a waiting thread polls again after this time at the latest, since another thread of the
/// program may have consumed the event that both waited for.
inline constexpr int kRepollMs = 100;

/// Policy: how long to poll before waiting by a system call.
inline constexpr Duration kSpin = Duration::microseconds(20);

/// Options that apply until a socket has its QP; the defaults are rdma-core's.
struct SocketOptions {
  std::uint32_t send_depth{384};
  std::uint32_t receive_depth{384};
  std::uint32_t inline_bytes{64};
  std::uint32_t send_bytes{1U << 17};
  std::uint32_t receive_bytes{1U << 17};
  std::uint32_t io_map_entries{};
  std::vector<std::byte> route;     // ibv_path_data set by the program
  std::uint64_t socket_switches{};  // a bit for each SO_ option
  std::uint64_t tcp_switches{};
  std::uint64_t ip6_switches{};
  int keep_idle_s{7'200};
};

/// Memory of the process with a memory region; null until make().
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  ~RegisteredMemory() { reset(); }
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  /// Allocates and registers `bytes`. Returns 0, or -1 with errno.
  [[nodiscard]] int make(ibv_pd* pd, std::size_t bytes, int access);
  /// Deregisters and frees the memory.
  void reset();
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::uint64_t address() const;
  [[nodiscard]] std::uint32_t lkey() const { return region_->lkey; }
  [[nodiscard]] std::uint32_t rkey() const { return region_->rkey; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  ibv_mr* region_{};
};

/// Gives the id a completion channel, whose descriptor is non-blocking, and one CQ of `entries` for
/// sends and receives. Returns 0, or -1 with errno.
[[nodiscard]] int create_queues(rdma_cm_id& cm, std::uint32_t entries);

/// Where a receiving call returns the source address, as of recvfrom(2).
struct Sender {
  sockaddr* address{};  // null: not wanted
  socklen_t* bytes{};
};

/// Returns an address as calls like accept(2) do, if it is wanted; -1 if there is none.
int copy_address(const sockaddr_storage& from, sockaddr* to, socklen_t* bytes);

/// An rsocket. Functions without a comment behave like the socket call of their name.
class Socket {
 public:
  Socket() = default;
  virtual ~Socket() = default;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// The number by which the program knows it.
  [[nodiscard]] virtual int fd() const = 0;

  // These return -1 with errno on failure. The base class refuses those that only streams have.
  [[nodiscard]] virtual int bind(const sockaddr* address) = 0;
  [[nodiscard]] virtual int listen(int backlog);
  /// Null with errno on failure.
  [[nodiscard]] virtual std::shared_ptr<Socket> accept();
  [[nodiscard]] virtual int connect(const sockaddr* address) = 0;
  [[nodiscard]] virtual ssize_t receive(std::byte* out, std::size_t bytes, int flags,
                                        Sender sender) = 0;
  /// As readv(2).
  [[nodiscard]] virtual ssize_t receive_pieces(std::span<const iovec> pieces, int flags,
                                               Sender sender) = 0;
  /// `to` may be null if the socket is connected.
  [[nodiscard]] virtual ssize_t send(const std::byte* data, std::size_t bytes, int flags,
                                     const sockaddr* to) = 0;
  /// As writev(2).
  [[nodiscard]] virtual ssize_t send_pieces(std::span<const iovec> pieces, int flags,
                                            const sockaddr* to) = 0;
  virtual int shutdown(int how) = 0;
  /// The program has closed it. Data sent before may still be in transit.
  virtual void close() = 0;

  /// The I/O map: riomap(3), riounmap(3) and riowrite(3).
  [[nodiscard]] virtual off_t map(void* memory, std::size_t bytes, int protection, off_t offset);
  [[nodiscard]] virtual int unmap(const void* memory, std::size_t bytes);
  [[nodiscard]] virtual ssize_t write_at(const std::byte* data, std::size_t bytes, off_t offset,
                                         int flags);

  /// The family is unspecified while there is no address.
  [[nodiscard]] virtual sockaddr_storage own_address() = 0;
  [[nodiscard]] virtual sockaddr_storage peer_address() = 0;

  [[nodiscard]] virtual bool is_nonblocking() = 0;
  [[nodiscard]] virtual int set_nonblocking(bool nonblocking) = 0;
  [[nodiscard]] virtual int take_error() = 0;  // SO_ERROR
  /// The caller may change options; they take effect only until is_open() is true.
  [[nodiscard]] SocketOptions& options() { return options_; }
  /// True once the socket has its QP, after which options and ids cannot be changed.
  [[nodiscard]] virtual bool is_open() = 0;
  /// An int option of RDMA_OPTION_ID, settable until the socket is open.
  [[nodiscard]] virtual int set_id_option(int name, int value) = 0;
  /// Payload of one packet, as far as known.
  [[nodiscard]] virtual int segment_bytes() = 0;

  /// What poll(2) would return now. Processes pending completions.
  [[nodiscard]] virtual short readiness(short events) = 0;
  /// Appends the descriptors to wait on until readiness() may change, and requests notifications on
  /// them.
  virtual void watch(short events, std::vector<pollfd>& descriptors) = 0;
  /// To be called after that wait.
  virtual void unwatch() = 0;

 protected:
  SocketOptions options_;
};

}  // namespace weft::rsockets
