#pragma once

#include <atomic>
#include <cstdint>

namespace weft::ring {

/// Where a process sleeps, in memory that its peers share (DESIGN.md, decision 4). `sleeping` is
/// the futex word.
///
/// The protocol, and why no wake is lost: a producer publishes a record, makes a full fence, then
/// reads `sleeping`; the consumer sets `sleeping`, makes a full fence, then looks at every ring
/// once more before it waits. One of the two sees the other's store. The futex call itself is the
/// driver's.
struct alignas(64) Attention {
  std::atomic<std::uint32_t> sleeping{0};
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);
static_assert(sizeof(Attention) == 64);

/// Producer, after it published: whether it must wake the consumer. At most one of several
/// producers is told so.
[[nodiscard]] inline bool must_wake(Attention& attention) {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return attention.sleeping.load(std::memory_order_relaxed) != 0 &&
         attention.sleeping.exchange(0, std::memory_order_relaxed) != 0;
}

/// Consumer: announces that it will sleep. It must look at all its rings after this and before it
/// waits on the futex.
inline void announce_sleep(Attention& attention) {
  attention.sleeping.store(1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
}

/// Consumer: awake, or found something at its last look.
inline void announce_awake(Attention& attention) {
  attention.sleeping.store(0, std::memory_order_relaxed);
}

}  // namespace weft::ring
