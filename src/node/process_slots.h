#pragma once

// Process slots of a simulated host: each process holds one of 1023 slots, which forms the upper
// bits of its QPNs (base/process_slot.h). Slot 0 belongs to the host itself, for QP0 and QP1. A
// virtual function has none of its own: it borrows blocks of its port's host, since the two share
// QPNs (fabric/virtual_ports.h). Pure, not thread-safe.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/process_slot.h"
#include "base/result.h"
#include "base/time.h"
#include "fabric/virtual_ports.h"

namespace weft::node {

/// Allocates process slots round-robin.
class ProcessSlots {
 public:
  static constexpr std::uint32_t kCount = kSlotCount;

  /// How long a released slot is not reused, so that late packets to its old QPNs are dropped;
  /// policy, not from the specification. It serves the same purpose as a kernel's QPN TimeWait.
  static constexpr Duration kSlotReuseDelay = Duration::seconds(2);

  /// All of a host's.
  ProcessSlots();
  /// A virtual function's: none until it borrows.
  [[nodiscard]] static ProcessSlots of_function() { return ProcessSlots{std::vector<Block>{}}; }

  /// Allocates the next free slot.
  [[nodiscard]] Result<std::uint32_t> take(Instant now);
  void release(std::uint32_t slot, Instant now);
  [[nodiscard]] bool is_taken(std::uint32_t slot) const;
  [[nodiscard]] std::size_t count_taken() const;
  [[nodiscard]] bool has_free(Instant now) const;

  // Of a host that lends.
  /// The highest block of which nobody has a slot and none rests; none if there is none above
  /// those that the host keeps.
  [[nodiscard]] std::optional<std::uint32_t> lend(Instant now);
  /// This block. False if somebody has a slot of it or one rests.
  [[nodiscard]] bool lend_this(std::uint32_t first, Instant now);
  /// `rested`: since when nobody has a slot of it.
  void take_back(std::uint32_t first, Instant rested);

  // Of a function that borrows.
  void borrow(std::uint32_t first);
  /// Nobody may have a slot of it.
  void give_back(std::uint32_t first);
  /// The first slots of what it has borrowed.
  [[nodiscard]] std::vector<std::uint32_t> borrowed() const;
  /// Whether somebody has a slot of the block.
  [[nodiscard]] bool is_used(std::uint32_t first) const;
  /// Whether nobody has one, and none rests.
  [[nodiscard]] bool is_idle(std::uint32_t first, Instant now) const;

 private:
  struct Slot {
    bool taken{};
    std::optional<Instant> released;
  };
  struct Block {
    std::uint32_t first{};
    std::array<Slot, fabric::kSlotsPerLoan> slots{};
  };

  explicit ProcessSlots(std::vector<Block> blocks) : blocks_(std::move(blocks)) {}

  [[nodiscard]] static bool is_free(const Slot& slot, Instant now);
  [[nodiscard]] static bool is_idle(const Block& block, Instant now);
  [[nodiscard]] const Block* find(std::uint32_t slot) const;
  [[nodiscard]] Slot& slot_at(std::uint32_t slot);

  std::vector<Block> blocks_;  // by their first slots
  std::size_t next_{};         // among the slots of all blocks
};

}  // namespace weft::node
