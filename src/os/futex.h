#pragma once

#include <atomic>
#include <cstdint>

#include "base/time.h"

namespace weft::os {

/// Waits while `word` holds `expected`, for at most `longest`, or for a spurious reason. Shared
/// between processes.
void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration longest);

/// Wakes everybody who waits for `word`.
void futex_wake(std::atomic<std::uint32_t>& word);

/// As ring::Sleeper wants it.
struct KernelFutex {
  static void wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration longest) {
    futex_wait(word, expected, longest);
  }
  static void wake(std::atomic<std::uint32_t>& word) { futex_wake(word); }
};

}  // namespace weft::os
