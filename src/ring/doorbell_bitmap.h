#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "ring/atomics.h"

namespace weft::ring {

/// A set of small numbers with concurrent insertion, for the doorbell bitmap of a process
/// (docs/ARCHITECTURE.md, decision 3) that tells which lanes were rung, and for the set of lanes
/// being watched. An insertion costs one or two atomic operations, a query of the empty board one
/// load.
///
/// In shared memory everybody who rings may write it, so it is a hint: a false bit makes others
/// poll an empty lane, a cleared one hides a doorbell; a waiter polls every lane now and then.
template <class Atomics = RealAtomics>
class BasicDoorbellBitmap {
 public:
  static constexpr std::size_t kDoorbells = 64 * 64;

  /// A take() that starts after this call visits `number`. Numbers out of range are ignored.
  void add(std::uint32_t number) {
    if (number < kDoorbells) {
      Atomics::fetch_or(words_[number / 64], bit(number), kOrdered);
      Atomics::fetch_or(summary_, bit(number / 64), kOrdered);
    }
  }

  void remove(std::uint32_t number) {
    if (number < kDoorbells) {
      Atomics::fetch_and(words_[number / 64], ~bit(number), kOrdered);
    }
  }

  [[nodiscard]] bool has(std::uint32_t number) const {
    return number < kDoorbells && (Atomics::load(words_[number / 64], kOrdered) & bit(number)) != 0;
  }

  [[nodiscard]] bool is_quiet() const {
    return Atomics::load(summary_, std::memory_order_acquire) == 0;
  }

  /// Calls `visit(number)` for each member and removes it. The summary is cleared first, because a
  /// concurrent add() sets it again.
  template <class Visit>
  void take(Visit visit) {
    const std::uint64_t words = Atomics::exchange(summary_, 0, kOrdered);
    each_bit(words, [&](std::uint32_t word) {
      each_bit(Atomics::exchange(words_[word], 0, kOrdered),
               [&](std::uint32_t place) { visit(word * 64 + place); });
    });
  }

  /// Calls `visit(number)` for each member.
  template <class Visit>
  void for_each(Visit visit) const {
    each_bit(Atomics::load(summary_, std::memory_order_acquire), [&](std::uint32_t word) {
      each_bit(Atomics::load(words_[word], std::memory_order_acquire),
               [&](std::uint32_t place) { visit(word * 64 + place); });
    });
  }

 private:
  static constexpr auto kOrdered = std::memory_order_seq_cst;

  [[nodiscard]] static constexpr std::uint64_t bit(std::uint32_t number) {
    return std::uint64_t{1} << number % 64;
  }
  template <class Visit>
  static void each_bit(std::uint64_t bits, Visit visit) {
    for (; bits != 0; bits &= bits - 1) {
      visit(static_cast<std::uint32_t>(std::countr_zero(bits)));
    }
  }

  alignas(64) std::atomic<std::uint64_t> summary_{};  // a bit for each word that may have bits set
  alignas(64) std::array<std::atomic<std::uint64_t>, 64> words_{};
};

using DoorbellBitmap = BasicDoorbellBitmap<>;

}  // namespace weft::ring
