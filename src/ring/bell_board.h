#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace weft::ring {

/// A set of small numbers with concurrent insertion, for the doorbell bitmap of a process
/// (docs/ARCHITECTURE.md, decision 3) that tells which lanes were rung, and for the set of lanes
/// being watched. An insertion costs one or two atomic operations, a query of the empty board one
/// load.
///
/// In shared memory all peers can write it, so it is only a hint: a hostile peer can cause needless
/// polling or clear a doorbell. A waiting consumer therefore polls all lanes from time to time.
class BellBoard {
 public:
  static constexpr std::size_t kBells = 64 * 64;

  /// A take() that starts after this call visits `number`. Numbers out of range are ignored.
  void add(std::uint32_t number) {
    if (number < kBells) {
      words_[number / 64].fetch_or(std::uint64_t{1} << number % 64);
      summary_.fetch_or(std::uint64_t{1} << number / 64);
    }
  }

  void remove(std::uint32_t number) {
    if (number < kBells) {
      words_[number / 64].fetch_and(~(std::uint64_t{1} << number % 64));
    }
  }

  [[nodiscard]] bool has(std::uint32_t number) const {
    return number < kBells && (words_[number / 64].load() >> number % 64 & 1) != 0;
  }

  [[nodiscard]] bool is_quiet() const { return summary_.load(std::memory_order_acquire) == 0; }

  /// Calls `visit(number)` for each member and removes it. The summary is cleared first, because a
  /// concurrent add() sets it again.
  template <class Visit>
  void take(Visit visit) {
    const std::uint64_t words = summary_.exchange(0);
    each_bit(words, [&](std::uint32_t word) {
      each_bit(words_[word].exchange(0), [&](std::uint32_t bit) { visit(word * 64 + bit); });
    });
  }

  /// Calls `visit(number)` for each member.
  template <class Visit>
  void for_each(Visit visit) const {
    each_bit(summary_.load(std::memory_order_acquire), [&](std::uint32_t word) {
      each_bit(words_[word].load(std::memory_order_acquire),
               [&](std::uint32_t bit) { visit(word * 64 + bit); });
    });
  }

 private:
  template <class Visit>
  static void each_bit(std::uint64_t bits, Visit visit) {
    for (; bits != 0; bits &= bits - 1) {
      visit(static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }

  alignas(64) std::atomic<std::uint64_t> summary_{};  // a bit for each word that may have bits set
  alignas(64) std::array<std::atomic<std::uint64_t>, 64> words_{};
};

}  // namespace weft::ring
