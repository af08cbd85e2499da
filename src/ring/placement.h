#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ring/atomics.h"

namespace weft::ring {

/// Copies of one process into the memory of another that can be under way at a time. Policy.
inline constexpr std::size_t kPlacementClaims = 8;
/// In a claim, beside the thread: it copies through pages that both processes map, by restartable
/// sequences that begin with a look at the epoch. No thread has so high a number (22 bits).
inline constexpr std::uint32_t kThroughPages = 1U << 31;

/// What the owner of memory shares with one peer that places into it by itself
/// (docs/ARCHITECTURE.md, decision 18). The owner writes `epoch`; the peer writes the claims, and
/// sets `wish` when it misses a grant, so that a peer that never places costs the owner one look.
///
/// The protocol, and why nobody writes after a withdrawal: the peer sets a claim, makes a full
/// fence, then reads `epoch`, and copies only if that is still the grant's; the owner adds one to
/// `epoch`, makes a full fence, then waits until every claim is clear. One of the two sees the
/// other's store.
///
/// A peer that is stopped with its claim set cannot be waited for. Each copy therefore begins with
/// the *guard*, a page of the owner whose address is part of the grant: the kernel touches it
/// first, in the same system call, and copies nothing if it is gone. The owner closes the guard
/// before it looks at claims, and from then on need not wait for a thread that is not inside that
/// call. Since the address comes with the grant, an old grant never meets a new guard.
///
/// Nothing guards pages that both map, and nobody takes them away. There a copy is a sequence that
/// the kernel sends back to its beginning whenever it has interrupted it, and at the beginning is a
/// look at `epoch`. So the owner, once it has added one, need not wait for a thread that has been
/// off its CPU since then.
struct PlacementWords {
  struct alignas(64) Epoch {
    std::atomic<std::uint64_t> value{};
  };
  struct alignas(64) Claim {
    /// 0: none; else the peer's thread, as the kernel's, and perhaps kThroughPages.
    std::atomic<std::uint32_t> thread{};
  };
  struct alignas(64) Wish {
    std::atomic<std::uint32_t> is_set{};
  };
  Epoch epoch;
  Wish wish;
  std::array<Claim, kPlacementClaims> claims;
};

/// Peer: begins a copy under a grant of `epoch`. False: the grant was withdrawn, and nothing is
/// claimed. `claim` is not used by another thread.
template <class Atomics = RealAtomics>
[[nodiscard]] bool begin_placement(PlacementWords& words, std::size_t claim, std::uint32_t thread,
                                   std::uint64_t epoch) {
  Atomics::store(words.claims.at(claim).thread, thread, std::memory_order_relaxed);
  Atomics::fence();
  if (Atomics::load(words.epoch.value, std::memory_order_acquire) == epoch) {
    return true;
  }
  Atomics::store(words.claims.at(claim).thread, 0, std::memory_order_release);
  return false;
}

/// Peer: the copy is over.
template <class Atomics = RealAtomics>
void end_placement(PlacementWords& words, std::size_t claim) {
  Atomics::store(words.claims.at(claim).thread, 0, std::memory_order_release);
}

/// Owner: no copy begins under the grants so far. Before the guard is closed.
template <class Atomics = RealAtomics>
void end_epoch(PlacementWords& words) {
  Atomics::fetch_add(words.epoch.value, 1, std::memory_order_release);
  Atomics::fence();
}

/// Owner, after the guard was closed: waits for what is under way. `pause(claim, thread)` is called
/// again and again while the claim is that thread's, and waits a little; false: the thread is not
/// inside the system call or the sequence, so that its copy comes to nothing.
template <class Atomics = RealAtomics, class Pause>
void wait_for_placements(const PlacementWords& words, Pause pause) {
  for (const PlacementWords::Claim& claim : words.claims) {
    std::uint32_t thread = Atomics::load(claim.thread, std::memory_order_acquire);
    while (thread != 0 && pause(claim.thread, thread)) {
      thread = Atomics::load(claim.thread, std::memory_order_acquire);
    }
  }
}

}  // namespace weft::ring
