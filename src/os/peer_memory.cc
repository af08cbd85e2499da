#include "os/peer_memory.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>

#include "base/assert.h"
#include "os/unique_fd.h"

namespace weft::os {
namespace {

constexpr std::uint64_t kWord = 8;

using Pieces = std::array<iovec, kMostPeerPieces + 1>;

[[nodiscard]] iovec at(std::uint64_t address, std::uint64_t length) {
  return {.iov_base = std::bit_cast<void*>(address), .iov_len = length};
}

[[nodiscard]] PeerCopy outcome(ssize_t copied, std::uint64_t wanted) {
  if (copied >= 0) {
    return static_cast<std::uint64_t>(copied) == wanted ? PeerCopy::Done : PeerCopy::BadAddress;
  }
  switch (errno) {
    case ESRCH:
      return PeerCopy::NoSuchProcess;
    case EFAULT:
      return PeerCopy::BadAddress;
    default:
      return PeerCopy::NotPermitted;
  }
}

}  // namespace

PeerCopy write_peer(const PeerRange& to, std::uint64_t guard, std::span<const ByteSpan> from) {
  WEFT_ASSERT(from.size() <= kMostPeerPieces, "a message has fewer pieces");
  std::byte none{};
  Pieces local;
  local[0] = {.iov_base = &none, .iov_len = 1};
  std::ranges::transform(from, local.begin() + 1, [](ByteSpan piece) {
    return iovec{.iov_base = const_cast<std::byte*>(piece.data()), .iov_len = piece.size()};
  });
  // The last word by itself, which the kernel copies last.
  const std::uint64_t end = to.address + to.length;
  const std::uint64_t tail = to.length <= kWord ? 0 : end % kWord == 0 ? kWord : end % kWord;
  const std::array remote{at(guard, 1), at(to.address, to.length - tail), at(end - tail, tail)};
  const ssize_t copied =
      process_vm_writev(to.process, local.data(), from.size() + 1, remote.data(), remote.size(), 0);
  return outcome(copied, to.length + 1);
}

PeerCopy read_peer(const PeerRange& from, std::uint64_t guard,
                   std::span<const MutableByteSpan> to) {
  WEFT_ASSERT(to.size() <= kMostPeerPieces, "a message has fewer pieces");
  std::byte none{};
  Pieces local;
  local[0] = {.iov_base = &none, .iov_len = 1};
  std::ranges::transform(to, local.begin() + 1, [](MutableByteSpan piece) {
    return iovec{.iov_base = piece.data(), .iov_len = piece.size()};
  });
  const std::array remote{at(guard, 1), at(from.address, from.length)};
  const ssize_t copied =
      process_vm_readv(from.process, local.data(), to.size() + 1, remote.data(), remote.size(), 0);
  return outcome(copied, from.length + 1);
}

std::uint32_t thread_id() {
  static thread_local const auto id = static_cast<std::uint32_t>(gettid());
  return id;
}

bool may_be_running(pid_t process, std::uint32_t thread) {
  const std::string path =
      "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) + "/stat";
  const UniqueFd file{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) {
    return errno != ENOENT && errno != ESRCH;
  }
  std::array<char, 512> text{};
  const ssize_t length = read(file.get(), text.data(), text.size());
  if (length < 0) {
    return errno != ESRCH;
  }
  // proc(5): number, name in parentheses, which may contain any others, state.
  const std::string_view stat{text.data(), static_cast<std::size_t>(length)};
  const std::size_t name_end = stat.rfind(')');
  if (name_end == std::string_view::npos || name_end + 2 >= stat.size()) {
    return true;
  }
  constexpr std::string_view kNotRunning = "TtZXx";
  return kNotRunning.find(stat[name_end + 2]) == std::string_view::npos;
}

void allow_peer(pid_t process) {
  const UniqueFd file{open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC)};
  char scope = '0';
  if (file && read(file.get(), &scope, 1) == 1 && scope == '1') {
    prctl(PR_SET_PTRACER, process, 0, 0, 0);
  }
}

}  // namespace weft::os
