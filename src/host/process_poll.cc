// The application's side of who looks at rings (docs/ARCHITECTURE.md, decision 4): what it takes
// when it polls a CQ.

#include <sched.h>

#include "host/process_impl.h"

namespace weft::host {
namespace {

/// Polls in vain, of some 50 ns each, before a CPU is offered to others; policy. Powers of two.
constexpr std::uint32_t kPollsBeforeYield = 256;
constexpr std::uint32_t kPollsBeforeYieldInACrowd = 16;  // or on few CPUs

/// While the thread is hot, the application looks for requests only when it was told that there is
/// a SEND, or after so many polls in vain: then the thread has much to do.
constexpr std::uint32_t kPollsBetweenLooks = 16;

/// Reading the clock costs as much as the rest of a look. A program that polls more seldom than the
/// thread waits for it has its timers seen to by the thread.
constexpr std::uint32_t kPollsBetweenTimers = 8;

}  // namespace

/// What the application looks at when it polls a CQ.
[[gnu::always_inline]] inline std::size_t Process::Impl::look_for_application(
    Lane& lane, std::uint32_t in_vain) {
  Lane::Turns& turns = lane.turns;
  turns.polls.store(turns.polls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::size_t responses = take_responses(lane);
  bool leave_one_sided = false;
  if (turns.thread_is_hot.load(std::memory_order_relaxed)) {
    // The thread has the ring. Its cache lines are left alone until there is something for us.
    leave_one_sided = turns.sends_wait.load(std::memory_order_relaxed);
    if (leave_one_sided) {
      turns.sends_wait.store(false, std::memory_order_relaxed);
    } else if (in_vain % kPollsBetweenLooks != kPollsBetweenLooks - 1) {
      return responses;
    }
  }
  return responses + take_requests(lane, false, leave_one_sided);
}

void Process::Impl::poll(CqCarrier& cq) {
  progress.sleeper.begin_lease();
  consume_doorbells();
  const std::uint32_t in_vain = cq.in_vain.load(std::memory_order_relaxed);
  std::size_t taken = 0;
  const auto look = [&](std::uint32_t number) {
    taken += look_for_application(*lanes[number], in_vain);
  };
  Lane* const only = cq.only_lane.load(std::memory_order_acquire);
  if (cq.takes_all.load(std::memory_order_relaxed)) {
    progress.sleeper.for_each_watched(look);
  } else if (only != nullptr) {
    taken = progress.sleeper.watches(only->number) ? look_for_application(*only, in_vain) : 0;
  } else {
    cq.lanes.for_each([&](std::uint32_t number) {
      if (progress.sleeper.watches(number)) {
        look(number);
      }
    });
  }
  const std::uint32_t polls = cq.polls.load(std::memory_order_relaxed);
  cq.polls.store(polls + 1, std::memory_order_relaxed);
  const bool timers_too = polls % kPollsBetweenTimers == 0;
  if (timers_too || has_upkeep()) [[unlikely]] {
    keep_up(timers_too);
  }
  if (taken == 0) {
    cq.in_vain.store(in_vain + 1, std::memory_order_relaxed);
    let_others_run(in_vain + 1);
  } else if (in_vain != 0) {
    cq.in_vain.store(0, std::memory_order_relaxed);
  }
}

/// After a poll that found nothing. Where programs outnumber CPUs, the peer that this one waits for
/// may be waiting for this very CPU.
void Process::Impl::let_others_run(std::uint32_t in_vain) {
  const bool is_crowded = progress.shares_cpus.load(std::memory_order_relaxed);
  if ((in_vain & ((is_crowded ? kPollsBeforeYieldInACrowd : kPollsBeforeYield) - 1)) == 0) {
    sched_yield();
  }
}

}  // namespace weft::host
