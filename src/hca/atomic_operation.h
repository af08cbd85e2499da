#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace weft::hca {

/// Bytes that an atomic acts on; its address is a multiple of that (IBTA vol 1 §9.4.5).
inline constexpr std::uint32_t kAtomicBytes = 8;

/// CmpSwap or FetchAdd with its operands, as the AtomicETH has them.
struct AtomicOperation {
  bool compares{};  ///< CmpSwap; else FetchAdd
  std::uint64_t swap_or_add{};
  std::uint64_t compare{};  ///< CmpSwap
};

/// Performs it with the CPU's own atomics, so that every process that maps the memory sees it as
/// atomic. Returns the original value. `memory` is aligned.
[[nodiscard]] inline std::uint64_t perform(const AtomicOperation& operation, std::byte* memory) {
  void* const target = memory;
  const std::atomic_ref<std::uint64_t> word{*static_cast<std::uint64_t*>(target)};
  if (!operation.compares) {
    return word.fetch_add(operation.swap_or_add);
  }
  std::uint64_t original = operation.compare;
  word.compare_exchange_strong(original, operation.swap_or_add);
  return original;
}

}  // namespace weft::hca
