#pragma once

// Datagram sockets as used by ibsim and its programs: abstract names that include a trailing NUL,
// or UDP ports on the loopback interface.

#include <sys/socket.h>
#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::daemon {

/// A received datagram with its sender's credentials and address.
struct IbsimDatagram {
  std::array<std::byte, 512> buffer{};
  std::size_t size{};
  ucred sender{};
  sockaddr_storage from{};
  socklen_t from_size{};

  [[nodiscard]] ByteSpan bytes() const { return ByteSpan{buffer}.first(size); }
  /// Source port; none if not UDP.
  [[nodiscard]] std::optional<std::uint16_t> udp_port() const;
};

/// Exists: somebody else has the name.
[[nodiscard]] Result<os::UniqueFd> bind_ibsim(std::string_view name);
[[nodiscard]] Result<os::UniqueFd> bind_ibsim_port(std::uint16_t port);
/// From now on only that one is sent to, and heard.
[[nodiscard]] Result<void> connect_ibsim(const os::UniqueFd& socket, std::string_view name);

[[nodiscard]] Result<void> connect_ibsim_port(const os::UniqueFd& socket, std::uint16_t port);

/// Does not block: returns false if no datagram is queued.
[[nodiscard]] bool receive_ibsim(int socket, IbsimDatagram& datagram);
/// Sends an answer; drops it if the peer's queue is full.
void answer_ibsim(int socket, const IbsimDatagram& asked, ByteSpan bytes);

}  // namespace weft::daemon
