#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ring/atomics.h"

namespace weft::ring {

/// A record in shared memory that one thread writes, and any others read without holding it up: its
/// words, behind a version that is odd while they are being written. Who reads meanwhile, or after
/// the writer has died there, has nothing; it neither waits nor tries again. Memory of zeros is a
/// record of zeros.
template <std::size_t kWords, class Atomics = RealAtomics>
struct VersionedRecord {
  using Words = std::array<std::uint32_t, kWords>;
  static constexpr std::size_t kBytes = (1 + kWords) * sizeof(std::uint32_t);

  /// `record` is aligned to its words.
  static void write(std::byte* record, const Words& words) {
    const std::uint32_t odd = Atomics::load(record, std::memory_order_relaxed) | 1;
    Atomics::store(record, odd, std::memory_order_relaxed);
    Atomics::fence();  // who sees a word of these sees the odd version, too
    for (std::size_t i = 0; i < kWords; ++i) {
      Atomics::store(record + place_of(i), words[i], std::memory_order_relaxed);
    }
    Atomics::store(record, odd + 1, std::memory_order_release);
  }

  /// False: it is being written, and `words` hold anything.
  [[nodiscard]] static bool read(const std::byte* record, Words& words) {
    const std::uint32_t version = Atomics::load(record, std::memory_order_acquire);
    if (version % 2 != 0) {
      return false;
    }
    for (std::size_t i = 0; i < kWords; ++i) {
      words[i] = Atomics::load(record + place_of(i), std::memory_order_relaxed);
    }
    Atomics::fence();
    return Atomics::load(record, std::memory_order_relaxed) == version;
  }

 private:
  [[nodiscard]] static constexpr std::size_t place_of(std::size_t word) {
    return (1 + word) * sizeof(std::uint32_t);
  }
};

}  // namespace weft::ring
