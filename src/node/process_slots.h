#pragma once

// Which processes a simulated host has: each holds one of 1023 slots, the upper part of all its
// QPNs (base/process_slot.h). Slot 0 is the host's own, for QP0 and QP1. Pure: time comes in.

#include <array>
#include <cstdint>
#include <optional>

#include "base/process_slot.h"
#include "base/result.h"
#include "base/time.h"

namespace weft::node {

class ProcessSlots {
 public:
  static constexpr std::uint32_t kCount = kSlotCount;

  /// How long a slot rests after its process is gone, so that late packets for the old QPNs find
  /// nobody (policy; the time-wait of QPNs in a kernel has the same purpose).
  static constexpr Duration kQuietTime = Duration::seconds(2);

  /// The next free slot in turn.
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
