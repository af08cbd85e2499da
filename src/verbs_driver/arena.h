#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

#include "base/bytes.h"
#include "base/result.h"

namespace weft::verbs_driver {

/// Memory that a device's keys reach where no key reaches everything (`dma_alloc_coherent`): one
/// range, registered whole, from which pieces are taken. Pages that nobody touched cost nothing but
/// addresses. Any thread.
class Arena {
 public:
  static constexpr std::size_t kAlignment = 4'096;  // policy, bytes

  /// OutOfMemory: there are no such addresses.
  [[nodiscard]] static Result<Arena> reserve(std::size_t bytes);
  Arena(Arena&& other) noexcept;
  Arena& operator=(Arena&&) = delete;
  ~Arena();

  [[nodiscard]] MutableByteSpan all() const { return all_; }
  [[nodiscard]] bool contains(std::uint64_t address, std::uint64_t length) const;

  /// Zeroed, of whole pages. OutOfMemory: no gap is as large.
  [[nodiscard]] Result<MutableByteSpan> allocate(std::size_t bytes);
  void free(MutableByteSpan piece);
  [[nodiscard]] std::size_t taken_bytes() const;

 private:
  explicit Arena(MutableByteSpan all) : all_(all) {}

  MutableByteSpan all_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::size_t> pieces_;  // offset to length, of those taken
};

}  // namespace weft::verbs_driver
