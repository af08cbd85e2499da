#include "node/process_slots.h"

#include "base/assert.h"
#include "base/live_bug.h"

namespace weft::node {

Result<std::uint32_t> ProcessSlots::take(Instant now) {
  if (planted(LiveBug::SlotReusedAtOnce)) {
    next_ = 1;
  }
  for (std::uint32_t tried = 1; tried < kCount; ++tried) {
    const std::uint32_t slot = next_;
    next_ = next_ + 1 == kCount ? 1 : next_ + 1;
    const bool rests = !planted(LiveBug::SlotReusedAtOnce) && slots_[slot].released &&
                       now - *slots_[slot].released < kSlotReuseDelay;
    if (!slots_[slot].taken && !rests) {
      slots_[slot].taken = true;
      return slot;
    }
  }
  return fail(ErrorCode::OutOfMemory,
              "the host has {} processes, as many as it can: end one, or use another host",
              kCount - 1);
}

void ProcessSlots::release(std::uint32_t slot, Instant now) {
  WEFT_ASSERT(is_taken(slot), "a slot is given back once, by who has it");
  slots_[slot] = {.taken = false, .released = now};
}

}  // namespace weft::node
