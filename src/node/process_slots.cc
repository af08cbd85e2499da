#include "node/process_slots.h"

#include <algorithm>
#include <iterator>
#include <ranges>

#include "base/assert.h"
#include "base/live_bug.h"

namespace weft::node {

using fabric::kSlotsPerLoan;

ProcessSlots::ProcessSlots() : blocks_(kCount / kSlotsPerLoan), next_(1) {
  for (std::uint32_t i = 0; i < blocks_.size(); ++i) {
    blocks_[i].first = i * kSlotsPerLoan;
  }
  blocks_.front().slots.front().taken = true;  // the host's own
}

bool ProcessSlots::is_free(const Slot& slot, Instant now) {
  const bool rests = !planted(LiveBug::SlotReusedAtOnce) && slot.released &&
                     now - *slot.released < kSlotReuseDelay;
  return !slot.taken && !rests;
}

bool ProcessSlots::is_idle(const Block& block, Instant now) {
  return std::ranges::all_of(block.slots, [&](const Slot& slot) { return is_free(slot, now); });
}

const ProcessSlots::Block* ProcessSlots::find(std::uint32_t slot) const {
  const std::uint32_t first = slot - slot % kSlotsPerLoan;
  const auto block = std::ranges::lower_bound(blocks_, first, {}, &Block::first);
  return block != blocks_.end() && block->first == first ? &*block : nullptr;
}

ProcessSlots::Slot& ProcessSlots::slot_at(std::uint32_t slot) {
  const Block* const block = find(slot);
  WEFT_ASSERT(block != nullptr, "the slot is one of these");
  const auto at = static_cast<std::size_t>(block - blocks_.data());
  return blocks_[at].slots[slot % kSlotsPerLoan];
}

Result<std::uint32_t> ProcessSlots::take(Instant now) {
  if (planted(LiveBug::SlotReusedAtOnce)) {
    next_ = 0;
  }
  const std::size_t count = blocks_.size() * kSlotsPerLoan;
  for (std::size_t tried = 0; tried < count; ++tried) {
    Block& block = blocks_[next_ % count / kSlotsPerLoan];
    const auto offset = static_cast<std::uint32_t>(next_ % kSlotsPerLoan);
    next_ = (next_ + 1) % count;
    if (is_free(block.slots[offset], now)) {
      block.slots[offset].taken = true;
      return block.first + offset;
    }
  }
  return fail(ErrorCode::OutOfMemory,
              "the host has {} processes, and as many as it can with those that have just ended: "
              "end one, wait {} ms, or use another host",
              count_taken(), kSlotReuseDelay.milliseconds());
}

void ProcessSlots::release(std::uint32_t slot, Instant now) {
  WEFT_ASSERT(is_taken(slot), "a slot is given back once, by who has it");
  slot_at(slot) = {.taken = false, .released = now};
}

bool ProcessSlots::is_taken(std::uint32_t slot) const {
  const Block* const block = find(slot);
  return block != nullptr && block->slots[slot % kSlotsPerLoan].taken;
}

std::size_t ProcessSlots::count_taken() const {
  std::size_t count = 0;
  for (const Block& block : blocks_) {
    count += static_cast<std::size_t>(std::ranges::count(block.slots, true, &Slot::taken));
  }
  return count;
}

bool ProcessSlots::has_free(Instant now) const {
  return std::ranges::any_of(blocks_, [&](const Block& block) {
    return std::ranges::any_of(block.slots, [&](const Slot& slot) { return is_free(slot, now); });
  });
}

std::optional<std::uint32_t> ProcessSlots::lend(Instant now) {
  for (const Block& block : blocks_ | std::views::reverse) {
    if (block.first < fabric::kSlotsOfPhysical) {
      break;
    }
    if (lend_this(block.first, now)) {
      return block.first;
    }
  }
  return std::nullopt;
}

bool ProcessSlots::lend_this(std::uint32_t first, Instant now) {
  if (!is_idle(first, now)) {
    return false;
  }
  for (std::uint32_t slot = first; slot != first + kSlotsPerLoan; ++slot) {
    slot_at(slot).taken = true;
  }
  return true;
}

void ProcessSlots::take_back(std::uint32_t first, Instant rested) {
  for (std::uint32_t slot = first; slot != first + kSlotsPerLoan; ++slot) {
    release(slot, rested);
  }
}

void ProcessSlots::borrow(std::uint32_t first) {
  WEFT_ASSERT(find(first) == nullptr && first % kSlotsPerLoan == 0, "a block that it has not");
  const auto at = std::ranges::lower_bound(blocks_, first, {}, &Block::first);
  blocks_.insert(at, Block{.first = first});
}

void ProcessSlots::give_back(std::uint32_t first) {
  WEFT_ASSERT(!is_used(first), "nobody has a slot of what is given back");
  std::erase_if(blocks_, [&](const Block& block) { return block.first == first; });
  next_ = 0;
}

std::vector<std::uint32_t> ProcessSlots::borrowed() const {
  std::vector<std::uint32_t> firsts;
  std::ranges::transform(blocks_, std::back_inserter(firsts), &Block::first);
  return firsts;
}

bool ProcessSlots::is_used(std::uint32_t first) const {
  const Block* const block = find(first);
  return block != nullptr &&
         std::ranges::find(block->slots, true, &Slot::taken) != block->slots.end();
}

bool ProcessSlots::is_idle(std::uint32_t first, Instant now) const {
  const Block* const block = find(first);
  return block != nullptr && is_idle(*block, now);
}

}  // namespace weft::node
