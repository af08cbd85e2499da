#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace weft::ring {

/// The atomics that rings, doorbells and sleepers use; tests put their own in its place
/// (ring/testing/explored_atomics.h).
struct RealAtomics {
  static std::uint32_t load(const std::byte* word, std::memory_order order) {
    return std::atomic_ref<std::uint32_t>{word_at(word)}.load(order);
  }
  static void store(std::byte* word, std::uint32_t value, std::memory_order order) {
    std::atomic_ref<std::uint32_t>{word_at(word)}.store(value, order);
  }
  static void copy(std::byte* to, const std::byte* from, std::size_t count) {
    if (count != 0) {
      std::memcpy(to, from, count);
    }
  }

  template <class Word>
  static Word load(const std::atomic<Word>& word, std::memory_order order) {
    return word.load(order);
  }
  template <class Word>
  static void store(std::atomic<Word>& word, std::type_identity_t<Word> value,
                    std::memory_order order) {
    word.store(value, order);
  }
  template <class Word>
  static Word exchange(std::atomic<Word>& word, std::type_identity_t<Word> value,
                       std::memory_order order) {
    return word.exchange(value, order);
  }
  template <class Word>
  static Word fetch_add(std::atomic<Word>& word, std::type_identity_t<Word> value,
                        std::memory_order order) {
    return word.fetch_add(value, order);
  }
  template <class Word>
  static Word fetch_or(std::atomic<Word>& word, std::type_identity_t<Word> bits,
                       std::memory_order order) {
    return word.fetch_or(bits, order);
  }
  template <class Word>
  static Word fetch_and(std::atomic<Word>& word, std::type_identity_t<Word> bits,
                        std::memory_order order) {
    return word.fetch_and(bits, order);
  }
  static void fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

 private:
  static std::uint32_t& word_at(const std::byte* word) {
    void* const address = const_cast<std::byte*>(word);
    return *static_cast<std::uint32_t*>(address);
  }
};

}  // namespace weft::ring
