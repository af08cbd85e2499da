#pragma once

// Copies between pages that two processes map, and atomics in them, by a thread that may be stopped
// in the middle of one (docs/ARCHITECTURE.md, decision 18). They are restartable sequences
// (rseq(2)): the kernel lets no thread go on inside one that it has interrupted there, but sends it
// to the beginning.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/bytes.h"

namespace weft::os {

/// A word of the memory's owner, and what it says for as long as the memory may be reached.
struct LiveWord {
  const std::atomic<std::uint64_t>& word;
  std::uint64_t live{};
};

enum class LiveCopy : std::uint8_t {
  Done,
  Ended,        ///< the word says something else; what was copied so far is there
  Interrupted,  ///< again and again, or this thread has no restartable sequences
};

/// Bytes of one sequence. Policy: half a microsecond at most, which a time slice exceeds by far.
inline constexpr std::size_t kLiveCopyBytes = 4'096;

/// Whether the calling thread has restartable sequences: glibc 2.35, Linux 4.18, x86-64.
[[nodiscard]] bool has_live_copy();

/// Copies `from`, in parts of kLiveCopyBytes. Before each part, and again after every interruption
/// of it (preemption, a signal, a stop), the word is looked at. So who changes the word, and then
/// knows that this thread has been off its CPU, knows that it writes nothing more. The last
/// eight bytes, where they are aligned, else the last byte, are written by one store, once, and
/// after all others.
[[nodiscard]] LiveCopy copy_while_live(const LiveWord& word, std::byte* to, ByteSpan from);

/// `original` is what `at` held before, if the outcome is Done; else nothing was changed.
struct LiveAtomic {
  LiveCopy outcome{};
  std::uint64_t original{};
};

/// Adds to the eight bytes at `at`, which are aligned, as one atomic step, once, for as long as the
/// word says so: between the look at it and that step nothing may interrupt.
[[nodiscard]] LiveAtomic add_while_live(const LiveWord& word, std::byte* at, std::uint64_t addend);
/// The same, but stores `swap` if they hold `compare`.
[[nodiscard]] LiveAtomic swap_while_live(const LiveWord& word, std::byte* at, std::uint64_t compare,
                                         std::uint64_t swap);

}  // namespace weft::os
