#include "namespaces/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <span>
#include <string>

#include "base/bytes.h"
#include "os/packet_socket.h"

namespace weft::namespaces {
namespace {

constexpr std::size_t kMessageBytes = 4096;

/// A message between parent and child: an ErrorCode and its reason, or nothing for success.
[[nodiscard]] Result<void> send(const os::PacketSocket& socket, const Result<void>& result,
                                std::span<const int> descriptors) {
  std::string text{"+"};
  if (!result) {
    text = fmt::format("-{}{}", static_cast<char>('0' + static_cast<int>(result.error().code)),
                       result.error().reason.substr(0, kMessageBytes - 2));
  }
  return socket.send(std::as_bytes(std::span{text}), descriptors);
}

/// Waits for the other's message, or its end.
[[nodiscard]] Result<std::vector<os::UniqueFd>> receive(const os::PacketSocket& socket) {
  // Blocking: the peer answers or ends, and then the socket says so.
  const int flags = fcntl(socket.fd(), F_GETFL);
  fcntl(socket.fd(), F_SETFL, flags & ~O_NONBLOCK);
  std::array<std::byte, kMessageBytes> bytes{};
  char kind = 0;
  const ssize_t peeked = recv(socket.fd(), &kind, 1, MSG_PEEK);
  if (peeked <= 0) {
    return fail(ErrorCode::Io, "the process that was to set up the host's namespaces ended");
  }
  auto packet = socket.receive(bytes);
  if (!packet) {
    return std::unexpected(packet.error());
  }
  if (bytes[0] == std::byte{'-'} && packet->bytes >= 2) {
    std::string reason;
    for (const std::byte byte : std::span{bytes}.subspan(2, packet->bytes - 2)) {
      reason += static_cast<char>(byte);
    }
    return std::unexpected(
        Error{static_cast<ErrorCode>(std::to_integer<int>(bytes[1]) - '0'), reason});
  }
  return std::move(packet->descriptors);
}

[[nodiscard]] int run_child(const os::PacketSocket& socket, const ChildWork& work,
                            const ChildOptions& options) {
  if (options.before) {
    const auto prepared = options.before();
    if (!send(socket, prepared, {}) || !prepared || !receive(socket)) {
      return 1;
    }
  }
  auto made = work();
  std::vector<int> numbers;
  if (made) {
    for (const os::UniqueFd& fd : *made) {
      numbers.push_back(fd.get());
    }
  }
  const Result<void> result =
      made ? Result<void>{} : Result<void>{std::unexpected(std::move(made.error()))};
  return send(socket, result, numbers) ? 0 : 1;
}

}  // namespace

Result<std::vector<os::UniqueFd>> run_in_child(const ChildWork& work, const ChildOptions& options) {
  std::array<int, 2> ends{};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return fail(ErrorCode::Io, "socketpair: {}", std::strerror(errno));
  }
  os::PacketSocket own{os::UniqueFd{ends[0]}};
  os::PacketSocket childs{os::UniqueFd{ends[1]}};
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    return fail(ErrorCode::OutOfMemory, "fork: {}", std::strerror(errno));
  }
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    own.close();
    _exit(getppid() == parent ? run_child(childs, work, options) : 1);
  }
  childs.close();
  auto result = [&]() -> Result<std::vector<os::UniqueFd>> {
    if (options.before) {
      if (auto ready = receive(own); !ready) {
        return ready;
      }
      auto helped = options.meanwhile ? options.meanwhile(pid) : Result<void>{};
      if (!helped) {
        return std::unexpected(std::move(helped.error()));
      }
      if (auto told = send(own, {}, {}); !told) {
        return std::unexpected(std::move(told.error()));
      }
    }
    return receive(own);
  }();
  own.close();  // a child that waits sees the end
  while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  return result;
}

}  // namespace weft::namespaces
