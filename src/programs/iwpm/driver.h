#pragma once

// A driver of an iWARP device as a program: asks the host's kernel side for mapped addresses
// (wire/iwpm/driver_messages.h). What it has mapped ends with it. Not thread-safe.

#include <cstdint>

#include "base/result.h"
#include "base/time.h"
#include "os/netlink_socket.h"
#include "wire/iwpm/driver_messages.h"

namespace weft::programs::iwpm {

class Driver {
 public:
  [[nodiscard]] static Result<Driver> open();

  /// The answer's error is 0, or the port mapper's (wire::iwpm::DaemonError). TimedOut: the
  /// host's kernel side does not answer, which it does within 20 s.
  [[nodiscard]] Result<wire::iwpm::ConnectionInfo> map(const wire::iwpm::SocketAddress& local,
                                                       std::uint32_t flags);
  [[nodiscard]] Result<wire::iwpm::ConnectionInfo> connect(const wire::iwpm::SocketAddress& local,
                                                           const wire::iwpm::SocketAddress& remote,
                                                           std::uint32_t flags);
  /// Whose connection has come: from its mapped addresses. What the peer's daemon has told may come
  /// after the connection that it is about, so that this waits for a second before it is
  /// wire::iwpm::kDriverUnknown.
  [[nodiscard]] Result<wire::iwpm::ConnectionInfo> find_remote(
      const wire::iwpm::SocketAddress& mapped_local,
      const wire::iwpm::SocketAddress& mapped_remote);
  [[nodiscard]] Result<void> unmap(const wire::iwpm::SocketAddress& local);

 private:
  explicit Driver(os::NetlinkSocket socket) : socket_(std::move(socket)) {}
  [[nodiscard]] Result<wire::iwpm::ConnectionInfo> ask_remote(
      const wire::iwpm::SocketAddress& mapped_local,
      const wire::iwpm::SocketAddress& mapped_remote);
  template <class Message>
  [[nodiscard]] Result<std::uint32_t> send(const Message& message,
                                           wire::iwpm::DriverOperation operation);
  [[nodiscard]] Result<wire::iwpm::ConnectionInfo> answer_to(Result<std::uint32_t> sequence);

  os::NetlinkSocket socket_;
  std::uint32_t last_sequence_{};
};

/// What an answer's error means; empty for 0.
[[nodiscard]] std::string_view error_text(std::uint16_t error);

}  // namespace weft::programs::iwpm
