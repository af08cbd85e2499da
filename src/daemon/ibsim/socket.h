#pragma once

// Datagram sockets with abstract names, as ibsim and its programs bind them: the NUL behind the
// name is part of it.

#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "host/unique_fd.h"

namespace weft::daemon {

/// A datagram, who sent it (as the kernel says), and where an answer goes.
struct IbsimDatagram {
  std::array<std::byte, 512> buffer{};
  std::size_t size{};
  ucred sender{};
  sockaddr_un from{};
  socklen_t from_size{};

  [[nodiscard]] ByteSpan bytes() const { return ByteSpan{buffer}.first(size); }
};

/// Exists: somebody else has the name.
[[nodiscard]] Result<host::UniqueFd> bind_ibsim(std::string_view name);
/// From now on only that one is sent to, and heard.
[[nodiscard]] Result<void> connect_ibsim(const host::UniqueFd& socket, std::string_view name);

/// Never waits: false when there is nothing.
[[nodiscard]] bool receive_ibsim(int socket, IbsimDatagram& datagram);
/// Lost if there is no room for it.
void answer_ibsim(int socket, const IbsimDatagram& asked, ByteSpan bytes);

}  // namespace weft::daemon
