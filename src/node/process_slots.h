#pragma once

// Process slots of a simulated host: each process holds one of 1023 slots, which forms the upper
// bits of its QPNs (base/process_slot.h). Slot 0 belongs to the host itself, for QP0 and QP1. Pure,
// not thread-safe.

#include <array>
#include <cstdint>
#include <optional>

#include "base/process_slot.h"
#include "base/result.h"
#include "base/time.h"

namespace weft::node {

/// Allocates process slots round-robin.
class ProcessSlots {
 public:
  static constexpr std::uint32_t kCount = kSlotCount;

  /// How long a released slot is not reused, so that late packets to its old QPNs are dropped;
  /// policy, not from the specification. It serves the same purpose as a kernel's QPN TimeWait.
  static constexpr Duration kSlotReuseDelay = Duration::seconds(2);

  ProcessSlots() : ProcessSlots(1, kCount - 1) {}
  /// Those of a virtual function are a block of its physical function's.
  ProcessSlots(std::uint32_t first, std::uint32_t count)
      : first_(first), end_(first + count), next_(first) {}

  /// Allocates the next free slot.
  [[nodiscard]] Result<std::uint32_t> take(Instant now);
  void release(std::uint32_t slot, Instant now);

  /// Lends a block to a virtual function, until it is given back. False if a slot of it is taken or
  /// rests.
  [[nodiscard]] bool lend(std::uint32_t first, std::uint32_t count, Instant now);
  void take_back(std::uint32_t first, std::uint32_t count, Instant now);

  [[nodiscard]] bool is_taken(std::uint32_t slot) const {
    return slot < kCount && slots_[slot].taken;
  }

 private:
  struct Slot {
    bool taken{};
    std::optional<Instant> released;
  };
  [[nodiscard]] bool is_free(std::uint32_t slot, Instant now) const;

  std::array<Slot, kCount> slots_{};
  std::uint32_t first_;
  std::uint32_t end_;
  std::uint32_t next_;
};

}  // namespace weft::node
