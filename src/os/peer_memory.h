#pragma once

// The memory of another process of the same user, as process_vm_readv(2) and process_vm_writev(2)
// reach it: where ptrace(2) would be allowed.

#include <sys/types.h>

#include <cstdint>
#include <span>

#include "base/bytes.h"

namespace weft::os {

enum class PeerCopy : std::uint8_t {
  Done,
  NotPermitted,   // ptrace_scope, a sandbox, or a process that is not dumpable
  NoSuchProcess,  // it is gone
  BadAddress,     // the first address, or one after it, is not there
};

/// A range of another process's memory.
struct PeerRange {
  pid_t process{};
  std::uint64_t address{};
  std::uint64_t length{};
};

/// Most pieces of one copy.
inline constexpr std::size_t kMostPeerPieces = 64;

/// Copies `from`, as long as `to`, to the other process's memory, if its byte at `guard` can be
/// written, which is tried first in the same system call; that byte becomes 0. The bytes from the
/// last multiple of 8 on, else the last 8, are stored after all others.
[[nodiscard]] PeerCopy write_peer(const PeerRange& to, std::uint64_t guard,
                                  std::span<const ByteSpan> from);
/// Copies from the other process's memory, if its byte at `guard` can be read, which is tried
/// first.
[[nodiscard]] PeerCopy read_peer(const PeerRange& from, std::uint64_t guard,
                                 std::span<const MutableByteSpan> to);

/// The calling thread's number, as the kernel's.
[[nodiscard]] std::uint32_t thread_id();

/// False if a thread of another process is stopped, or gone: it is in no system call. True if that
/// cannot be known.
[[nodiscard]] bool may_be_running(pid_t process, std::uint32_t thread);

/// Lets another process of the user reach this one's memory where ptrace_scope is 1 (Yama). Only
/// the newest is let in.
void allow_peer(pid_t process);

}  // namespace weft::os
