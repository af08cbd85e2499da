#pragma once

// Control messages over AF_UNIX SOCK_SEQPACKET, with descriptors. Used by programs, the command
// and the daemon.

#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
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
  explicit ControlSocket(os::UniqueFd fd) : fd_(std::move(fd)) {}

  /// Connects to a daemon's socket.
  [[nodiscard]] static Result<ControlSocket> connect(const std::string& path);

  [[nodiscard]] int fd() const { return fd_.get(); }
  [[nodiscard]] explicit operator bool() const { return static_cast<bool>(fd_); }
  void close() { fd_.reset(); }

  /// TryAgain: the peer's buffer is full, nothing was sent. Refused: the peer is gone.
  [[nodiscard]] Result<void> send(const uabi::Message& message,
                                  std::span<const int> descriptors = {}) const;

  /// Never waits: TryAgain when there is nothing. Refused: the peer is gone.
  [[nodiscard]] Result<Received> receive() const;

  /// Waits for a message up to `longest`; TimedOut after that.
  [[nodiscard]] Result<Received> receive(Duration longest) const;

 private:
  os::UniqueFd fd_;
};

/// A listening socket at `path`, which must not exist.
[[nodiscard]] Result<os::UniqueFd> listen_at(const std::string& path);

}  // namespace weft::host
