// The progress thread: it serves what the application does not look at (docs/ARCHITECTURE.md,
// decision 4). What it does when nothing comes: process_rest.cc.

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/live_bug.h"
#include "host/process_impl.h"
#include "host/spin_budget.h"
#include "os/clock.h"
#include "os/schedule.h"

namespace weft::host {
namespace {

/// Of the spinning thread; policy.
constexpr unsigned kRoundsBetweenScans = 16;

/// Answers to an application that polled so lately are left to it: it is the one that waits for
/// them, and what they change lies in its cache; policy.
constexpr Duration kResponseGrace = Duration::microseconds(5);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Spinning pays only when everybody who spins has a CPU: two programs with two threads each.
[[nodiscard]] bool has_cpus_to_spin() {
  cpu_set_t cpus;
  CPU_ZERO(&cpus);
  constexpr int kEnough = 4;
  return sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) >= kEnough;
}

/// How often this thread has lost its CPU to others.
[[nodiscard]] long count_switches() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

}  // namespace

/// What the thread looks at: what the application does not see to.
std::size_t Process::Impl::poll_for_thread(Lane& lane, bool spins) {
  Lane::PollingTurns& turns = lane.turns;
  std::size_t taken = turns.polled_recently ? 0 : take_responses(lane);
  if (take_requests(lane, turns.polls_now, false) != 0) {
    ++taken;
    if (spins && !turns.thread_is_hot.load(std::memory_order_relaxed)) {
      turns.thread_is_hot.store(true, std::memory_order_relaxed);
    }
  }
  return taken;
}

/// Which lanes the application looks at; when it last looked at any. It writes those lines: not
/// every round.
Instant Process::Impl::observe_polls(Instant at) {
  const bool has_lease = progress.sleeper.has_lease();
  Instant newest{};
  for_each_polled_lane([&](Lane& lane) {
    Lane::PollingTurns& turns = lane.turns;
    const std::uint64_t polls = turns.polls.load(std::memory_order_relaxed);
    if (polls != turns.seen_polls || planted(LiveBug::LeaseNeverExpires)) {
      turns.seen_polls = polls;
      turns.polled_at = at;
    }
    turns.polls_now = has_lease && at - turns.polled_at < Process::kFreshPoll;
    turns.polled_recently = has_lease && at - turns.polled_at < kResponseGrace;
    newest = std::max(newest, turns.polled_at);
  });
  return has_lease ? newest : Instant{};
}

void Process::Impl::run_progress() {
  os::request_prompt_scheduling();
  const bool has_cpus = has_cpus_to_spin();
  SpinBudget budget{has_cpus, os::now()};
  Contention contention;
  progress.shares_cpus.store(!has_cpus, std::memory_order_relaxed);
  Instant polled_at{};  // when a new poll of the application was last seen
  for (unsigned round = 0; !stopping.load(std::memory_order_relaxed); ++round) {
    const Instant at = clock.read();
    consume_doorbells();
    if (round % kRoundsBetweenScans == 0) {
      polled_at = observe_polls(at);
    }
    std::size_t taken = 0;
    for_each_polled_lane([&](Lane& lane) { taken += poll_for_thread(lane, budget.spins()); });
    if (at - polled_at >= kResponseGrace) {
      run_maintenance(true);
    }
    deliver_held_events(at);
    if (taken != 0 && !planted_late(LiveBug::DeadLaneNotDrained)) {
      budget.note_work(at);
      continue;
    }
    if (!budget.is_spent(at, links.due.earliest())) {
      pause();
      continue;
    }
    const bool is_contended = contention.is_contended(at, count_switches);
    rest(at, polled_at, budget);
    budget.begin_anew(is_contended);
    progress.shares_cpus.store(!has_cpus || is_contended, std::memory_order_relaxed);
    round = kRoundsBetweenScans - 1;
  }
}

}  // namespace weft::host
