#include "host/progress_thread.h"

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>

#include "base/live_bug.h"
#include "os/block_signals.h"
#include "os/schedule.h"

namespace weft::host {
namespace {

/// Rounds of the spinning thread between two looks at what the application polls; policy.
constexpr unsigned kRoundsBetweenScans = 16;

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

/// Spinning pays only if every spinning thread has a CPU: two programs with two threads each.
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

void ProgressThread::start() {
  const std::lock_guard guard{lock_};
  if (!thread_.joinable()) {
    thread_ = os::block_signals([this] { run(); });
  }
}

void ProgressThread::stop() {
  request_stop();
  const std::lock_guard guard{lock_};
  parts_.progress.sleeper.wake_now();
  if (thread_.joinable()) {
    thread_.join();
  }
}

bool ProgressThread::has_thread() {
  const std::lock_guard guard{lock_};
  return thread_.joinable();
}

bool ProgressThread::request_hold() {
  if (!has_thread()) {
    return false;
  }
  hold_point_.request();
  parts_.progress.sleeper.wake_now();
  return true;
}

/// Takes what the application leaves to the thread.
std::size_t ProgressThread::poll_lane(Lane& lane, bool spins) {
  station::PollingTurns& turns = lane.turns;
  std::size_t taken = turns.leaves_responses() ? 0 : parts_.receiver.take_responses(lane);
  const RecordFilter filter = turns.leaves_sends() ? RecordFilter::OneSided : RecordFilter::All;
  if (parts_.receiver.take_requests(lane, filter) != 0) {
    ++taken;
    if (spins) {
      turns.begin_hot();
    }
  }
  return taken;
}

/// Looks which lanes the application polls; returns when it last polled any. Not every round, since
/// the application writes those cache lines.
Instant ProgressThread::observe_polls(Instant at) {
  const bool has_lease = parts_.progress.sleeper.has_lease();
  Instant newest{};
  for_each_polled_lane([&](Lane& lane) {
    lane.turns.observe(at, has_lease, planted(LiveBug::LeaseNeverExpires));
    newest = std::max(newest, lane.turns.polled_at());
  });
  return has_lease ? newest : Instant{};
}

void ProgressThread::run() {
  os::request_prompt_scheduling();
  const bool has_cpus = has_cpus_to_spin();
  ProgressState& progress = parts_.progress;
  station::SpinBudget budget{has_cpus, os::now()};
  station::Contention contention;
  progress.shares_cpus.store(!has_cpus, std::memory_order_relaxed);
  Instant polled_at{};  // when a new poll of the application was last seen
  for (unsigned round = 0; !stopping_.load(std::memory_order_relaxed); ++round) {
    hold_point_.pass();
    const Instant at = parts_.clock.read();
    progress.sleeper.consume_doorbells(
        [this](std::uint32_t number) { return number < parts_.lanes.count(); });
    if (round % kRoundsBetweenScans == 0) {
      polled_at = observe_polls(at);
    }
    std::size_t taken = 0;
    for_each_polled_lane([&](Lane& lane) { taken += poll_lane(lane, budget.spins()); });
    if (at - polled_at >= station::PollingTurns::kResponseGrace) {
      parts_.maintenance.run(true);
    }
    parts_.held_events.deliver_due(at);
    if (taken != 0 && !planted_late(LiveBug::DeadLaneNotDrained)) {
      budget.note_work(at);
      continue;
    }
    if (!budget.is_spent(at, parts_.delivery.next_arrival())) {
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
