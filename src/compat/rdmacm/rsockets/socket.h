#pragma once

// What the calls of rsocket(7) need of a socket, be it a stream or of datagrams. Any thread may
// call anything.

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

/// Policy: a thread looks again after this time, whatever it was told; another thread of the
/// program may have taken its sign while both waited.
inline constexpr int kRepollMs = 100;

/// Policy: an answer that comes within this time costs no system call.
inline constexpr Duration kSpin = Duration::microseconds(20);

/// What a program may set before a socket has its QP; rdma-core's values.
struct SocketOptions {
  std::uint32_t send_depth{384};
  std::uint32_t receive_depth{384};
  std::uint32_t inline_bytes{64};
  std::uint32_t send_bytes{1U << 17};
  std::uint32_t receive_bytes{1U << 17};
  std::uint32_t io_map_entries{};
  std::vector<std::byte> route;     // ibv_path_data that the program knows
  std::uint64_t socket_switches{};  // by number of the option
  std::uint64_t tcp_switches{};
  std::uint64_t ip6_switches{};
  int keep_idle_s{7'200};
};

/// Memory of the process that the device knows; null until it is made.
class RegisteredMemory {
 public:
  RegisteredMemory() = default;
  ~RegisteredMemory() { reset(); }
  RegisteredMemory(const RegisteredMemory&) = delete;
  RegisteredMemory& operator=(const RegisteredMemory&) = delete;

  /// 0, or -1 with errno.
  [[nodiscard]] int make(ibv_pd* pd, std::size_t bytes, int access);
  void reset();
  [[nodiscard]] std::byte* data() const { return memory_.get(); }
  [[nodiscard]] std::uint64_t address() const;
  [[nodiscard]] std::uint32_t lkey() const { return region_->lkey; }
  [[nodiscard]] std::uint32_t rkey() const { return region_->rkey; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  ibv_mr* region_{};
};

/// A completion channel that is never waited on by reading it, and one CQ of `entries` for sends
/// and receives, as the id's own: 0, or -1 with errno.
[[nodiscard]] int create_queues(rdma_cm_id& cm, std::uint32_t entries);

/// What came to an address, and from whom.
struct Sender {
  sockaddr* address{};  // null: nobody asks
  socklen_t* bytes{};
};

/// As the calls of sockets answer addresses, if anybody asks: 0, or -1 if there is none.
int copy_address(const sockaddr_storage& from, sockaddr* to, socklen_t* bytes);

class Socket {
 public:
  Socket() = default;
  virtual ~Socket() = default;
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;

  /// The number that the program knows it by.
  [[nodiscard]] virtual int fd() const = 0;

  // All as the calls of sockets: -1 with errno when they fail. What only streams have is refused
  // here.
  [[nodiscard]] virtual int bind(const sockaddr* address) = 0;
  [[nodiscard]] virtual int listen(int backlog);
  /// Null with errno.
  [[nodiscard]] virtual std::shared_ptr<Socket> accept();
  [[nodiscard]] virtual int connect(const sockaddr* address) = 0;
  [[nodiscard]] virtual ssize_t receive(std::byte* out, std::size_t bytes, int flags,
                                        Sender sender) = 0;
  [[nodiscard]] virtual ssize_t receive_pieces(std::span<const iovec> pieces, int flags,
                                               Sender sender) = 0;
  /// To an address, or without one to where the socket is connected.
  [[nodiscard]] virtual ssize_t send(const std::byte* data, std::size_t bytes, int flags,
                                     const sockaddr* to) = 0;
  [[nodiscard]] virtual ssize_t send_pieces(std::span<const iovec> pieces, int flags,
                                            const sockaddr* to) = 0;
  virtual int shutdown(int how) = 0;
  /// The program has done with it. What it sent may still be on its way.
  virtual void close() = 0;

  [[nodiscard]] virtual off_t map(void* memory, std::size_t bytes, int protection, off_t offset);
  [[nodiscard]] virtual int unmap(const void* memory, std::size_t bytes);
  [[nodiscard]] virtual ssize_t write_at(const std::byte* data, std::size_t bytes, off_t offset,
                                         int flags);

  /// Of no family while there is none.
  [[nodiscard]] virtual sockaddr_storage own_address() = 0;
  [[nodiscard]] virtual sockaddr_storage peer_address() = 0;

  [[nodiscard]] virtual bool is_nonblocking() = 0;
  [[nodiscard]] virtual int set_nonblocking(bool nonblocking) = 0;
  [[nodiscard]] virtual int take_error() = 0;  // SO_ERROR
  /// Options may be changed by who holds them; `is_open()` says whether they still matter.
  [[nodiscard]] SocketOptions& options() { return options_; }
  [[nodiscard]] virtual bool is_open() = 0;
  /// An int of RDMA_OPTION_ID, before the socket is open.
  [[nodiscard]] virtual int set_id_option(int name, int value) = 0;
  /// What one packet carries, as far as it is known.
  [[nodiscard]] virtual int segment_bytes() = 0;

  /// What poll() would say now; does what stands ready.
  [[nodiscard]] virtual short readiness(short events) = 0;
  /// What to wait on until readiness() may change; from now on these descriptors will tell.
  virtual void watch(short events, std::vector<pollfd>& descriptors) = 0;
  /// After that wait.
  virtual void unwatch() = 0;

 protected:
  SocketOptions options_;
};

}  // namespace weft::rsockets
