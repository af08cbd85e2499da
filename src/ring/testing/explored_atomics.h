#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ring/spsc_ring.h"
#include "ring/testing/explorer.h"

namespace weft::ring::testing {

/// Atomics for the templates of this room. Planted mistakes derive from it.
struct ExploredAtomics {
  static std::uint32_t load(const std::byte* word, std::memory_order order) {
    Explorer* const explorer = Explorer::running();
    return explorer != nullptr ? explorer->load(word, order) : RealAtomics::load(word, order);
  }
  static void store(std::byte* word, std::uint32_t value, std::memory_order order) {
    Explorer* const explorer = Explorer::running();
    explorer != nullptr ? explorer->store(word, value, order)
                        : RealAtomics::store(word, value, order);
  }
  static void copy(std::byte* to, const std::byte* from, std::size_t count) {
    Explorer* const explorer = Explorer::running();
    explorer != nullptr ? explorer->copy(to, from, count) : RealAtomics::copy(to, from, count);
  }

  // Separate words are only accessed by fibers.
  static std::uint32_t load(const std::atomic<std::uint32_t>& word, std::memory_order order) {
    return Explorer::running()->load(&word, order);
  }
  static void store(std::atomic<std::uint32_t>& word, std::uint32_t value,
                    std::memory_order order) {
    Explorer::running()->store(&word, value, order);
  }
  static std::uint32_t exchange(std::atomic<std::uint32_t>& word, std::uint32_t value,
                                std::memory_order order) {
    return Explorer::running()->modify(&word, [value](std::uint32_t) { return value; }, order);
  }
  static std::uint32_t fetch_add(std::atomic<std::uint32_t>& word, std::uint32_t value,
                                 std::memory_order order) {
    return Explorer::running()->modify(
        &word, [value](std::uint32_t old) { return old + value; }, order);
  }
  static void fence() { Explorer::running()->fence(); }
};

}  // namespace weft::ring::testing
