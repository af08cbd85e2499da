#pragma once

// Datagram sockets as ibsim and its programs bind them: with abstract names, of which the NUL
// behind is part, or UDP ports of the loopback.

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

/// A datagram, who sent it (as the kernel says), and where an answer goes.
struct IbsimDatagram {
  std::array<std::byte, 512> buffer{};
  std::size_t size{};
  ucred sender{};
  sockaddr_storage from{};
  socklen_t from_size{};

  [[nodiscard]] ByteSpan bytes() const { return ByteSpan{buffer}.first(size); }
  /// Of who sent it by UDP.
  [[nodiscard]] std::optional<std::uint16_t> udp_port() const;
};

/// Exists: somebody else has the name.
[[nodiscard]] Result<os::UniqueFd> bind_ibsim(std::string_view name);
[[nodiscard]] Result<os::UniqueFd> bind_ibsim_port(std::uint16_t port);
/// From now on only that one is sent to, and heard.
[[nodiscard]] Result<void> connect_ibsim(const os::UniqueFd& socket, std::string_view name);

[[nodiscard]] Result<void> connect_ibsim_port(const os::UniqueFd& socket, std::uint16_t port);

/// Never waits: false when there is nothing.
[[nodiscard]] bool receive_ibsim(int socket, IbsimDatagram& datagram);
/// Lost if there is no room for it.
void answer_ibsim(int socket, const IbsimDatagram& asked, ByteSpan bytes);

}  // namespace weft::daemon
