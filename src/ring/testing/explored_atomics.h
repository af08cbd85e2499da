#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/time.h"
#include "ring/atomics.h"
#include "ring/testing/explorer.h"

namespace weft::ring::testing {

/// Atomics for the templates of this room. Planted mistakes derive from it.
struct ExploredAtomics {
  static std::uint32_t load(const std::byte* word, std::memory_order order) {
    Explorer* const explorer = Explorer::running();
    return explorer != nullptr ? static_cast<std::uint32_t>(explorer->load(word_at(word), order))
                               : RealAtomics::load(word, order);
  }
  static void store(std::byte* word, std::uint32_t value, std::memory_order order) {
    Explorer* const explorer = Explorer::running();
    explorer != nullptr ? explorer->store(word_at(word), value, order)
                        : RealAtomics::store(word, value, order);
  }
  static void copy(std::byte* to, const std::byte* from, std::size_t count) {
    Explorer* const explorer = Explorer::running();
    explorer != nullptr ? explorer->copy(to, from, count) : RealAtomics::copy(to, from, count);
  }

  // Words of their own are touched by fibers only.
  template <class Value>
  static Value load(const std::atomic<Value>& word, std::memory_order order) {
    return static_cast<Value>(Explorer::running()->load(Explorer::word_of(word), order));
  }
  template <class Value>
  static void store(std::atomic<Value>& word, std::type_identity_t<Value> value,
                    std::memory_order order) {
    Explorer::running()->store(Explorer::word_of(word), static_cast<std::uint64_t>(value), order);
  }
  template <class Value>
  static Value exchange(std::atomic<Value>& word, std::type_identity_t<Value> value,
                        std::memory_order order) {
    return modify(word, [value](Value) { return value; }, order);
  }
  template <class Value>
  static Value fetch_add(std::atomic<Value>& word, std::type_identity_t<Value> value,
                         std::memory_order order) {
    return modify(word, [value](Value old) { return static_cast<Value>(old + value); }, order);
  }
  template <class Value>
  static Value fetch_or(std::atomic<Value>& word, std::type_identity_t<Value> bits,
                        std::memory_order order) {
    return modify(word, [bits](Value old) { return old | bits; }, order);
  }
  template <class Value>
  static Value fetch_and(std::atomic<Value>& word, std::type_identity_t<Value> bits,
                         std::memory_order order) {
    return modify(word, [bits](Value old) { return old & bits; }, order);
  }
  static void fence() { Explorer::running()->fence(); }

 private:
  static Explorer::Word word_at(const std::byte* word) {
    return {.at = word, .bytes = sizeof(std::uint32_t)};
  }
  template <class Value, class Change>
  static Value modify(std::atomic<Value>& word, Change change, std::memory_order order) {
    const auto of_bits = [&](std::uint64_t old) {
      return static_cast<std::uint64_t>(change(static_cast<Value>(old)));
    };
    return static_cast<Value>(Explorer::running()->modify(Explorer::word_of(word), of_bits, order));
  }
};

/// The futex of fibers (ring::IsFutex). A sleep of less than an hour is bounded.
struct ExploredFutex {
  static constexpr Duration kUnbounded = Duration::seconds(3'600);

  static void wait(std::atomic<std::uint32_t>& word, std::uint32_t expected, Duration longest) {
    Explorer::running()->sleep_while(word, expected, longest < kUnbounded);
  }
  static void wake(std::atomic<std::uint32_t>& word) { Explorer::running()->wake(word); }
};

}  // namespace weft::ring::testing
