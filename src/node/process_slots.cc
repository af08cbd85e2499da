#include "node/process_slots.h"

#include "base/assert.h"
#include "base/live_bug.h"

namespace weft::node {

bool ProcessSlots::is_free(std::uint32_t slot, Instant now) const {
  const bool rests = !planted(LiveBug::SlotReusedAtOnce) && slots_[slot].released &&
                     now - *slots_[slot].released < kSlotReuseDelay;
  return !slots_[slot].taken && !rests;
}

Result<std::uint32_t> ProcessSlots::take(Instant now) {
  if (planted(LiveBug::SlotReusedAtOnce)) {
    next_ = first_;
  }
  for (std::uint32_t tried = first_; tried < end_; ++tried) {
    const std::uint32_t slot = next_;
    next_ = next_ + 1 == end_ ? first_ : next_ + 1;
    if (is_free(slot, now)) {
      slots_[slot].taken = true;
      return slot;
    }
  }
  return fail(ErrorCode::OutOfMemory,
              "the host has {} processes, as many as it can: end one, or use another host",
              end_ - first_);
}

bool ProcessSlots::lend(std::uint32_t first, std::uint32_t count, Instant now) {
  WEFT_ASSERT(first >= first_ && first + count <= end_, "a block of these slots");
  for (std::uint32_t slot = first; slot != first + count; ++slot) {
    if (!is_free(slot, now)) {
      return false;
    }
  }
  for (std::uint32_t slot = first; slot != first + count; ++slot) {
    slots_[slot].taken = true;
  }
  return true;
}

void ProcessSlots::take_back(std::uint32_t first, std::uint32_t count, Instant now) {
  for (std::uint32_t slot = first; slot != first + count; ++slot) {
    release(slot, now);
  }
}

void ProcessSlots::release(std::uint32_t slot, Instant now) {
  WEFT_ASSERT(is_taken(slot), "a slot is given back once, by who has it");
  slots_[slot] = {.taken = false, .released = now};
}

}  // namespace weft::node
