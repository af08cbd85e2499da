// The application's side of who looks at rings (docs/ARCHITECTURE.md, decision 4): what it takes
// when it polls a CQ.

#include <sched.h>

#include "host/process_impl.h"

namespace weft::host {
namespace {

/// Polls that find nothing, of some 50 ns each, before a CPU is offered to others; policy. Powers
/// of two.
constexpr std::uint32_t kPollsBeforeYield = 256;
constexpr std::uint32_t kPollsBeforeYieldWhenContended = 16;  // or on few CPUs

/// While the thread is hot, the application looks for requests only when it was told that there is
/// a SEND, or after so many empty polls: then the thread has much to do.
constexpr std::uint32_t kPollsBetweenScans = 16;

/// Reading the clock costs as much as the rest of a look. A program that polls more seldom than the
/// thread waits for it has its timers seen to by the thread.
constexpr std::uint32_t kPollsBetweenTimers = 8;

}  // namespace

/// What the application looks at when it polls a CQ.
[[gnu::always_inline]] inline std::size_t Process::Impl::poll_for_application(
    Lane& lane, std::uint32_t empty_polls) {
  Lane::PollingTurns& turns = lane.turns;
  turns.polls.store(turns.polls.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  const std::size_t responses = take_responses(lane);
  bool leave_one_sided = false;
  if (turns.thread_is_hot.load(std::memory_order_relaxed)) {
    // The thread has the ring. Its cache lines are left alone until there is something for us.
    leave_one_sided = turns.sends_wait.load(std::memory_order_relaxed);
    if (leave_one_sided) {
      turns.sends_wait.store(false, std::memory_order_relaxed);
    } else if (empty_polls % kPollsBetweenScans != kPollsBetweenScans - 1) {
      return responses;
    }
  }
  return responses + take_requests(lane, false, leave_one_sided);
}

void Process::Impl::poll(CqDriverState& cq) {
  progress.sleeper.begin_lease();
  consume_doorbells();
  const std::uint32_t empty_polls = cq.empty_polls.load(std::memory_order_relaxed);
  std::size_t taken = 0;
  const auto look = [&](std::uint32_t number) {
    taken += poll_for_application(*lanes[number], empty_polls);
  };
  Lane* const only = cq.only_lane.load(std::memory_order_acquire);
  if (cq.takes_all.load(std::memory_order_relaxed)) {
    progress.sleeper.for_each_polled_lane(look);
  } else if (only != nullptr) {
    taken = progress.sleeper.watches(only->number) ? poll_for_application(*only, empty_polls) : 0;
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
  if (timers_too || has_maintenance()) [[unlikely]] {
    run_maintenance(timers_too);
  }
  if (taken == 0) {
    cq.empty_polls.store(empty_polls + 1, std::memory_order_relaxed);
    yield_to_others(empty_polls + 1);
  } else if (empty_polls != 0) {
    cq.empty_polls.store(0, std::memory_order_relaxed);
  }
}

/// After a poll that found nothing. Where programs outnumber CPUs, the peer that this one waits for
/// may be waiting for this very CPU.
void Process::Impl::yield_to_others(std::uint32_t empty_polls) {
  const bool is_contended = progress.shares_cpus.load(std::memory_order_relaxed);
  if ((empty_polls & ((is_contended ? kPollsBeforeYieldWhenContended : kPollsBeforeYield) - 1)) ==
      0) {
    sched_yield();
  }
}

}  // namespace weft::host
