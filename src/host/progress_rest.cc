// How the progress thread rests when nothing comes: it naps while the application polls, and sleeps
// until it is woken otherwise (docs/ARCHITECTURE.md, decision 4).

#include <sched.h>

#include <algorithm>
#include <mutex>

#include "base/live_bug.h"
#include "host/process.h"
#include "host/progress_thread.h"

namespace weft::host {
namespace {

/// How long the thread sleeps at most while QPs wait for space: their peers may be stopped. Policy.
constexpr Duration kSpaceWaitLimit = Duration::milliseconds(1);

/// Doorbells and wakes are hints, which a hostile peer may take back (ring::BasicAttentionPage): so
/// the sleeper looks at everything this often. Policy.
constexpr Duration kMaxSleep = Duration::seconds(1);

/// A lane that the thread is about to leave alone, as ring::Sleeper asks about it.
class LaneAtRest {
 public:
  explicit LaneAtRest(Lane& lane)
      : lane_(lane),
        requests_(lane.in(hca::Flow::Request)),
        responses_(lane.in(hca::Flow::Response)) {}

  [[nodiscard]] bool is_open() const { return lane_.state() == LaneState::Open; }
  [[nodiscard]] ring::Attention* attention() const { return lane_.own_attention(); }
  [[nodiscard]] bool try_own() const {
    return std::try_lock(requests_.owner, responses_.owner) == -1;
  }
  void destroy_unreported() const {
    requests_.owner.unlock();
    responses_.owner.unlock();
  }
  /// During a nap the application sees to everything but one-sided requests.
  [[nodiscard]] bool has_something(ring::Sleep sleep) const {
    if (sleep == ring::Sleep::Napping) {
      const auto front = requests_.ring.look();
      return front.state == ring::Consumer<>::State::Record && station::is_one_sided(front.body);
    }
    lane_.signal_space();
    return lane_.has_record();
  }

 private:
  Lane& lane_;
  Lane::In& requests_;
  Lane::In& responses_;
};

}  // namespace

/// What ring::Sleeper asks the thread about its nap or sleep.
class ProgressThread::Rest {
 public:
  explicit Rest(ProgressThread& thread) : thread_(thread), parts_(thread.parts_) {}

  [[nodiscard]] LaneAtRest lane(std::uint32_t number) const {
    return LaneAtRest{*parts_.lanes[number]};
  }

  // Of a nap.
  [[nodiscard]] bool is_polled(std::uint32_t number) const {
    return parts_.lanes[number]->turns.leaves_responses();
  }
  [[nodiscard]] bool must_not_wait() const { return thread_.stopping_.load(); }
  [[nodiscard]] Duration how_long_to_nap() const {
    const Instant at = os::now();
    const Instant due = std::min(parts_.delivery.next_arrival(), parts_.held_events.earliest());
    return std::min(at + bounded_by(SafetyNet::Nap, Process::kNap), std::max(at, due)) - at;
  }

  // Of a sleep.
  [[nodiscard]] Instant wakes_at() {
    const Instant at = os::now();
    longest_ = bounded_by(SafetyNet::MaxSleep, kMaxSleep);
    if (parts_.sender.has_waiting() || parts_.delivery.has_blocked()) {
      longest_ = bounded_by(SafetyNet::SpaceWaitLimit, kSpaceWaitLimit);
    }
    const Instant due = thread_.next_deadline();
    if (due != Instant::never()) {
      longest_ = std::min(longest_, std::max(due - at, Duration{}));
    }
    return at + longest_;
  }
  /// An earlier deadline was set since wakes_at(), or there is something to send. The last look at
  /// rings, incoming and outgoing, comes after all was announced.
  [[nodiscard]] bool finds_work(Instant wakes_at) {
    return thread_.next_deadline() < wakes_at || thread_.stopping_.load() ||
           parts_.sender.resume_waiting() ||
           (parts_.delivery.has_blocked() && parts_.delivery.release_blocked(os::now())) ||
           longest_ <= Duration{};
  }
  [[nodiscard]] Duration how_long_to_sleep() const { return longest_; }

 private:
  ProgressThread& thread_;
  const Parts& parts_;
  Duration longest_;
};

Instant ProgressThread::next_deadline() const {
  return std::min(
      {parts_.timers.earliest(), parts_.delivery.next_arrival(), parts_.held_events.earliest()});
}

/// A doorbell can be lost only by a hostile peer; that it rang shows in the lane itself, too.
void ProgressThread::watch_rung_lanes() {
  const std::size_t count = parts_.lanes.count();
  for (std::size_t i = 0; i < count; ++i) {
    const Lane& lane = *parts_.lanes[i];
    if (lane.state() == LaneState::Open && lane.has_doorbell()) {
      parts_.progress.sleeper.watch(lane.number);
    }
  }
}

void ProgressThread::sleep_until_woken() {
  Rest rest{*this};
  ProcessSleeper& sleeper = parts_.progress.sleeper;
  switch (sleeper.sleep(rest)) {
    case ring::SleepEnd::LaneHadNews:
      sched_yield();  // another thread may own the ring, and wait for this CPU
      break;
    case ring::SleepEnd::WorkCame:
      break;
    case ring::SleepEnd::WasAsleep:
      if (!sleeper.has_doorbells() && has(SafetyNet::FullScan)) {
        watch_rung_lanes();
      }
      break;
  }
}

/// Nothing came while the thread was spinning: it naps if the application polls, and else sleeps.
void ProgressThread::rest(Instant at, Instant polled_at, station::SpinBudget& budget) {
  for_each_polled_lane([](Lane& lane) { lane.turns.end_hot(); });
  if (at - polled_at < Process::kPollingLease) {
    Rest rest{*this};
    budget.note_nap(parts_.progress.sleeper.nap(rest));
  } else {
    sleep_until_woken();
  }
}

}  // namespace weft::host
