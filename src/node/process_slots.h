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

  /// Allocates the next free slot.
  [[nodiscard]] Result<std::uint32_t> take(Instant now);
  void release(std::uint32_t slot, Instant now);

  [[nodiscard]] bool is_taken(std::uint32_t slot) const {
    return slot < kCount && slots_[slot].taken;
  }

 private:
  struct Slot {
    bool taken{};
    std::optional<Instant> released;
  };
  std::array<Slot, kCount> slots_{};
  std::uint32_t next_{1};
};

}  // namespace weft::node
