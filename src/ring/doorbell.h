#pragma once

#include <atomic>
#include <cstdint>

#include "ring/atomics.h"
#include "ring/sleep_table.h"

namespace weft::ring {

/// Whether a consumer looks at its rings, in memory that it shares with their producer
/// (docs/ARCHITECTURE.md, decision 4). The futex word is `sleeping` itself, or a counter of wakes
/// that the consumer read before it announced its sleep.
///
/// The protocol, and why no wake is lost: a producer publishes a record, makes a full fence, then
/// reads `sleeping`; the consumer sets `sleeping`, makes a full fence, then looks at every ring
/// once more before it waits. One of the two sees the other's store. The futex call itself is the
/// driver's.
struct alignas(64) Attention {
  std::atomic<std::uint32_t> sleeping{0};  // a Sleep
};

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(Attention) == 64);

/// Producer, after it published: whether it must wake the consumer. At most one of several
/// producers is told so. `is_urgent`: it wakes one who naps, too.
template <class Atomics = RealAtomics>
[[nodiscard]] bool must_wake(Attention& attention, bool is_urgent = true) {
  Atomics::fence();
  const std::uint32_t sleep = Atomics::load(attention.sleeping, std::memory_order_relaxed);
  return wants_doorbell(static_cast<Sleep>(sleep), is_urgent) &&
         Atomics::exchange(attention.sleeping, 0, std::memory_order_relaxed) != 0;
}

/// Consumer: announces that it will sleep. It must look at all its rings after this and before it
/// waits on the futex.
template <class Atomics = RealAtomics>
void announce_sleep(Attention& attention, Sleep sleep = Sleep::Sound) {
  Atomics::store(attention.sleeping, static_cast<std::uint32_t>(sleep), std::memory_order_relaxed);
  Atomics::fence();
}

/// Consumer: awake, or found something at its last look.
template <class Atomics = RealAtomics>
void announce_awake(Attention& attention) {
  Atomics::store(attention.sleeping, 0, std::memory_order_relaxed);
}

}  // namespace weft::ring
