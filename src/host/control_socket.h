#pragma once

// Control messages (uabi/messages.h) over a packet socket. Used by programs, the command and the
// daemon.

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "os/packet_socket.h"
#include "os/unique_fd.h"
#include "uabi/messages.h"

namespace weft::host {

struct Received {
  uabi::Message message;
  std::vector<os::UniqueFd> descriptors;  // exactly uabi::descriptors_of(message)
};

/// One end of a connection. Any one thread may send while another receives.
class ControlSocket {
 public:
  ControlSocket() = default;
  explicit ControlSocket(os::UniqueFd fd) : socket_(std::move(fd)) {}

  /// Connects to a daemon's socket.
  [[nodiscard]] static Result<ControlSocket> connect(const std::string& path);

  [[nodiscard]] int fd() const { return socket_.fd(); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(socket_); }
  void close() { socket_.close(); }

  /// TryAgain: the peer's buffer is full, nothing was sent. Refused: the peer is gone.
  [[nodiscard]] Result<void> send(const uabi::Message& message,
                                  std::span<const int> descriptors = {}) const;

  /// Never waits: TryAgain when there is nothing. Refused: the peer is gone.
  [[nodiscard]] Result<Received> receive() const;

  /// Waits for a message up to `longest`; TimedOut after that.
  [[nodiscard]] Result<Received> receive(Duration longest) const;

 private:
  explicit ControlSocket(os::PacketSocket socket) : socket_(std::move(socket)) {}

  os::PacketSocket socket_;
};

}  // namespace weft::host
