#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "ring/placement.h"
#include "ring/testing/explored_atomics.h"
#include "ring/testing/explorer.h"

/// A peer that places and an owner that withdraws, in every interleaving that the bounds below
/// allow: nothing is written to memory after a withdrawal returned, though the peer may be stopped
/// anywhere but inside its system call. Mistakes that let it are found.

namespace weft::ring {
namespace {

using testing::ExploredAtomics;
using testing::Explorer;

constexpr std::size_t kEpochs = 2;
constexpr std::uint32_t kThread = 7;

struct Plan {
  bool peer_may_be_stopped{};  // the owner finds it so whenever it is not inside the call
  bool through_pages{};        // by sequences (kThroughPages) instead of the call and its guard
  bool is_atomic{};            // and an atomic instead of a copy
  // Planted when not as here.
  bool owner_closes_guard{true};
  bool owner_waits{true};
  bool owner_ends_epoch_first{true};
  bool guard_comes_with_grant{true};
  bool peer_claims_first{true};
  bool claim_outlasts_copy{true};
  bool interrupted_peer_looks_again{true};
  bool look_is_in_sequence{true};
  bool owner_counts_interruptions_late{true};
  bool atomic_ends_sequence{true};
};

/// Memory of both, and what the kernel knows. The memory of one epoch is another than that of the
/// next, as are their guards.
struct World {
  PlacementWords words;
  std::atomic<std::uint64_t> granted{0};       // the newest grant's epoch
  std::atomic<std::uint64_t> newest_guard{0};  // for peers that ask for it late
  std::array<std::atomic<std::uint32_t>, kEpochs> guard_is_open{};
  // Known to the explorer alone.
  std::array<bool, kEpochs> is_given_back{};
  bool is_inside_call{};
  unsigned interruptions{};  // of the peer's thread
  unsigned fenced_interruptions{};
  unsigned atomics{};           // performed
  unsigned reported_atomics{};  // of which the peer knows: it sends the others as packets

  /// process_vm_writev(2): the guard is touched first, and then the copy goes on even if it is
  /// closed; nobody stops in between.
  void copy(std::uint64_t epoch, std::uint64_t guard) {
    const std::uint32_t is_open =
        ExploredAtomics::fetch_add(guard_is_open.at(guard), 0, std::memory_order_acq_rel);
    if (is_open == 0) {
      return;
    }
    is_inside_call = true;
    for (int step = 0; step < 2; ++step) {
      Explorer::running()->check(!is_given_back.at(epoch), "memory is written while it is granted");
      ExploredAtomics::fence();  // a step, at which others may run
    }
    Explorer::running()->check(!is_given_back.at(epoch), "memory is written while it is granted");
    is_inside_call = false;
  }

  /// os::copy_while_live(): whoever was interrupted since the sequence began does not go on in it.
  void copy_in_sequence(std::uint64_t epoch, const Plan& plan) {
    for (bool is_done = false; !is_done;) {
      while (fenced_interruptions != interruptions) {  // the kernel's change of threads is a fence
        fenced_interruptions = interruptions;
        ExploredAtomics::fence();
      }
      unsigned before = interruptions;
      if (ExploredAtomics::load(words.epoch.value, std::memory_order_acquire) != epoch) {
        return;
      }
      if (!plan.look_is_in_sequence) {
        before = interruptions;
      }
      is_done = plan.is_atomic ? add_unless_interrupted(epoch, plan, before)
                               : write_unless_interrupted(epoch, plan, before);
    }
  }
  /// os::add_while_live().
  [[nodiscard]] bool add_unless_interrupted(std::uint64_t epoch, const Plan& plan,
                                            unsigned before) {
    ExploredAtomics::fence();  // a step, at which others may run
    if (plan.interrupted_peer_looks_again && interruptions != before) {
      return false;
    }
    Explorer::running()->check(!is_given_back.at(epoch), "memory is written while it is granted");
    ++atomics;
    if (!plan.atomic_ends_sequence) {
      ExploredAtomics::fence();
      if (interruptions != before) {
        return false;
      }
    }
    ++reported_atomics;
    return true;
  }
  [[nodiscard]] bool write_unless_interrupted(std::uint64_t epoch, const Plan& plan,
                                              unsigned before) {
    for (int step = 0; step < 3; ++step) {
      if (plan.interrupted_peer_looks_again && interruptions != before) {
        return false;
      }
      Explorer::running()->check(!is_given_back.at(epoch), "memory is written while it is granted");
      ExploredAtomics::fence();  // a step, at which others may run
    }
    return true;
  }
};

template <class Atomics>
void place(World& world, const Plan& plan) {
  const std::uint64_t epoch = ExploredAtomics::load(world.granted, std::memory_order_acquire);
  if (!plan.peer_claims_first &&
      ExploredAtomics::load(world.words.epoch.value, std::memory_order_acquire) != epoch) {
    return;
  }
  bool has_begun = true;
  if (plan.peer_claims_first) {
    has_begun = begin_placement<Atomics>(world.words, 0, kThread, epoch);
  } else {
    Atomics::store(world.words.claims[0].thread, kThread, std::memory_order_relaxed);
    Atomics::fence();
  }
  if (!has_begun) {
    Explorer::running()->wake(world.words.claims[0].thread);
    return;
  }
  const auto copy = [&] {
    if (plan.through_pages) {
      world.copy_in_sequence(epoch, plan);
    } else {
      world.copy(epoch, plan.guard_comes_with_grant
                            ? epoch
                            : ExploredAtomics::load(world.newest_guard, std::memory_order_acquire));
    }
  };
  if (plan.claim_outlasts_copy) {
    copy();
  }
  end_placement<Atomics>(world.words, 0);
  Explorer::running()->wake(world.words.claims[0].thread);
  if (!plan.claim_outlasts_copy) {
    copy();
  }
}

template <class Atomics>
void withdraw(World& world, const Plan& plan) {
  const auto wait = [&] {
    wait_for_placements<Atomics>(
        world.words, [&](const std::atomic<std::uint32_t>& claim, std::uint32_t thread) {
          if (plan.peer_may_be_stopped && !world.is_inside_call) {
            world.interruptions += plan.owner_counts_interruptions_late ? 1 : 0;
            return false;
          }
          Explorer::running()->sleep_while(claim, thread);
          return true;
        });
  };
  world.interruptions += plan.owner_counts_interruptions_late ? 0 : 1;
  if (!plan.owner_ends_epoch_first) {
    wait();
  }
  end_epoch<Atomics>(world.words);
  if (plan.owner_closes_guard) {
    ExploredAtomics::fetch_and(world.guard_is_open[0], 0, std::memory_order_acq_rel);
  }
  if (plan.owner_ends_epoch_first && plan.owner_waits) {
    wait();
  }
  world.is_given_back[0] = true;
  ExploredAtomics::fetch_add(world.guard_is_open[1], 1, std::memory_order_acq_rel);
  ExploredAtomics::store(world.newest_guard, 1, std::memory_order_release);
  ExploredAtomics::store(world.granted, 1, std::memory_order_release);
}

template <class PeerAtomics = ExploredAtomics, class OwnerAtomics = ExploredAtomics>
Explorer::Scenario scenario(const Plan& plan) {
  return [plan](Explorer& explorer) {
    const auto world = std::make_shared<World>();
    world->guard_is_open[0] = 1;
    explorer.share("epoch", world->words.epoch.value);
    explorer.share("claim", world->words.claims[0].thread);
    explorer.share("granted", world->granted);
    explorer.share("newest guard", world->newest_guard);
    explorer.share("guard 0", world->guard_is_open[0]);
    explorer.share("guard 1", world->guard_is_open[1]);
    for (std::size_t claim = 1; claim < kPlacementClaims; ++claim) {
      explorer.share("another claim", world->words.claims.at(claim).thread);
    }
    explorer.add_fiber("peer", [&plan, world] {
      place<PeerAtomics>(*world, plan);
      place<PeerAtomics>(*world, plan);
      Explorer::running()->check(world->atomics == world->reported_atomics,
                                 "an atomic is performed once");
    });
    explorer.add_fiber("owner", [&plan, world] { withdraw<OwnerAtomics>(*world, plan); });
  };
}

constexpr std::uint64_t kRunsMax = 1'000'000;  // policy: sufficient to try all

void expect_sound(const Plan& plan) {
  const auto report = Explorer::every(scenario(plan), {.deviations = 4, .runs = kRunsMax});
  EXPECT_EQ(report.failure, "");
  EXPECT_TRUE(report.is_complete) << report.runs << " runs were not enough";
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    EXPECT_EQ(Explorer::at_random(scenario(plan), seed, 500).failure, "") << "seed " << seed;
  }
}

void expect_found(const Explorer::Scenario& planted,
                  std::string_view failure = "not so: memory is written while it is granted") {
  const auto report = Explorer::every(planted, {.deviations = 4, .runs = kRunsMax});
  EXPECT_EQ(report.failure.substr(0, failure.size()), failure) << report.failure;
}

TEST(PlacementInterleaving, NothingIsWrittenAfterAWithdrawal) { expect_sound({}); }

TEST(PlacementInterleaving, NorByAPeerThatWasStopped) {
  expect_sound({.peer_may_be_stopped = true});
}

TEST(PlacementInterleaving, ClaimsAreEnoughForAPeerThatRuns) {
  expect_sound({.owner_closes_guard = false});
}

/// Planted bug: no fence.
struct NoFence : ExploredAtomics {
  static void fence() {}
};

TEST(PlacementInterleaving, FindsAPeerWithoutAFence) {
  expect_found(scenario<NoFence>({.owner_closes_guard = false}));
}

TEST(PlacementInterleaving, FindsAnOwnerWithoutAFence) {
  expect_found(scenario<ExploredAtomics, NoFence>({.owner_closes_guard = false}));
}

TEST(PlacementInterleaving, FindsAnOwnerThatDoesNotWait) {
  expect_found(scenario({.owner_waits = false}));
}

TEST(PlacementInterleaving, FindsAnOwnerThatWaitsBeforeItEndsTheEpoch) {
  expect_found(scenario({.owner_ends_epoch_first = false}));
}

TEST(PlacementInterleaving, FindsAPeerThatLooksBeforeItClaims) {
  expect_found(scenario({.owner_closes_guard = false, .peer_claims_first = false}));
}

TEST(PlacementInterleaving, FindsAnOwnerThatLeavesTheGuardOpenForAStoppedPeer) {
  expect_found(scenario({.peer_may_be_stopped = true, .owner_closes_guard = false}));
}

TEST(PlacementInterleaving, FindsAnOldGrantWithANewGuard) {
  expect_found(scenario({.peer_may_be_stopped = true, .guard_comes_with_grant = false}));
}

TEST(PlacementInterleaving, FindsAClaimThatIsGivenUpTooEarly) {
  expect_found(scenario({.claim_outlasts_copy = false}));
}

// Through pages that both map, which have no guard.

TEST(PlacementInterleaving, ThroughPagesNothingIsWrittenAfterAWithdrawal) {
  expect_sound({.through_pages = true, .owner_closes_guard = false});
}

TEST(PlacementInterleaving, ThroughPagesNorByAPeerThatWasInterrupted) {
  expect_sound({.peer_may_be_stopped = true, .through_pages = true, .owner_closes_guard = false});
}

TEST(PlacementInterleaving, FindsASequenceThatGoesOnWhereItWasInterrupted) {
  expect_found(scenario({.peer_may_be_stopped = true,
                         .through_pages = true,
                         .owner_closes_guard = false,
                         .interrupted_peer_looks_again = false}));
}

TEST(PlacementInterleaving, FindsALookBeforeTheSequence) {
  expect_found(scenario({.peer_may_be_stopped = true,
                         .through_pages = true,
                         .owner_closes_guard = false,
                         .look_is_in_sequence = false}));
}

TEST(PlacementInterleaving, FindsAnOwnerThatCountsInterruptionsBeforeItEndsTheEpoch) {
  expect_found(scenario({.peer_may_be_stopped = true,
                         .through_pages = true,
                         .owner_closes_guard = false,
                         .owner_counts_interruptions_late = false}));
}

TEST(PlacementInterleaving, FindsASequenceWithoutAClaim) {
  expect_found(
      scenario({.through_pages = true, .owner_closes_guard = false, .claim_outlasts_copy = false}));
}

// Atomics, which are the last step of a sequence.

constexpr Plan kAtomics{.peer_may_be_stopped = true,
                        .through_pages = true,
                        .is_atomic = true,
                        .owner_closes_guard = false};

TEST(PlacementInterleaving, AtomicsArePerformedOnceAndNotAfterAWithdrawal) {
  Plan plan = kAtomics;
  expect_sound(plan);
  plan.peer_may_be_stopped = false;
  expect_sound(plan);
}

TEST(PlacementInterleaving, FindsAnAtomicThatIsNotTheLastStep) {
  Plan plan = kAtomics;
  plan.atomic_ends_sequence = false;
  expect_found(scenario(plan), "not so: an atomic is performed once");
}

TEST(PlacementInterleaving, FindsAnAtomicAfterALookBeforeItsSequence) {
  Plan plan = kAtomics;
  plan.look_is_in_sequence = false;
  expect_found(scenario(plan));
}

TEST(PlacementInterleaving, FindsAnAtomicThatGoesOnWhereItWasInterrupted) {
  Plan plan = kAtomics;
  plan.interrupted_peer_looks_again = false;
  expect_found(scenario(plan));
}

}  // namespace
}  // namespace weft::ring
