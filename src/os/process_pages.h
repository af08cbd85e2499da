#pragma once

// Pages of this process's own memory, as far as its operating system lets it hold them.

#include <cstdint>

#include "base/result.h"

namespace weft::os {

/// Bytes of a page.
[[nodiscard]] std::uint32_t page_size();

/// Bytes that the process may lock (RLIMIT_MEMLOCK), all if it may lock whatever it likes
/// (CAP_IPC_LOCK).
[[nodiscard]] std::uint64_t lock_limit();

/// Makes all pages of [start, start + bytes), which are whole ones, present, by a fault for each
/// that is not. BadAddress: one of them is not there, or may not be written.
Result<void> populate(std::uint64_t start, std::uint64_t bytes, bool for_writing);

/// Keeps present pages where they are; again: nothing. OutOfMemory: the limit; BadAddress: not
/// there.
Result<void> lock_pages(std::uint64_t start, std::uint64_t bytes);
/// Of pages that are gone: nothing.
void unlock_pages(std::uint64_t start, std::uint64_t bytes);

}  // namespace weft::os
