#pragma once

// Control messages (uabi/messages.h) over a packet socket, for programs, the command and the
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

/// A message and the descriptors that came with it.
struct Received {
  uabi::Message message;
  std::vector<os::UniqueFd> descriptors;  // exactly uabi::descriptors_of(message)
};

/// One end of a connection. One thread may send while another receives.
class ControlSocket {
 public:
  ControlSocket() = default;
  explicit ControlSocket(os::UniqueFd fd) : socket_(std::move(fd)) {}

  /// Connects to the socket of a daemon.
  [[nodiscard]] static Result<ControlSocket> connect(const std::string& path);

  [[nodiscard]] int fd() const { return socket_.fd(); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(socket_); }
  void close() { socket_.close(); }

  /// Sends without waiting. TryAgain: the peer's buffer is full, nothing was sent. Refused: the
  /// peer is gone.
  [[nodiscard]] Result<void> send(const uabi::Message& message,
                                  std::span<const int> descriptors = {}) const;

  /// Receives without waiting. TryAgain: no message. Refused: the peer is gone.
  [[nodiscard]] Result<Received> receive() const;

  /// Waits for a message for at most `longest`, then TimedOut.
  [[nodiscard]] Result<Received> receive(Duration longest) const;

 private:
  explicit ControlSocket(os::PacketSocket socket) : socket_(std::move(socket)) {}

  os::PacketSocket socket_;
};

}  // namespace weft::host
