// How the progress thread rests when nothing comes: for a moment while the application polls, and
// until it is woken otherwise (docs/ARCHITECTURE.md, decision 4). Who has to wake it, and in which
// order what is announced and looked at, is ring::Sleeper's business; here is what there is to look
// at, and for how long the thread waits.

#include <sched.h>

#include <algorithm>
#include <mutex>

#include "base/live_bug.h"
#include "host/process_impl.h"
#include "host/spin_budget.h"
#include "os/clock.h"

namespace weft::host {
namespace {

/// While senders wait for room, how long the thread sleeps at most: their peers may be stopped.
constexpr Duration kSpaceWaitLimit = Duration::milliseconds(1);

/// Doorbells and wakes are hints, which a liar among the peers may take back
/// (ring::BasicAttentionPage): who sleeps looks at everything this often.
constexpr Duration kMaxSleep = Duration::seconds(1);

/// A lane that is about to be left alone, for ring::Sleeper.
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
  [[nodiscard]] bool has_something(ring::Sleep sleep) const {
    if (sleep == ring::Sleep::Napping) {
      return has_one_sided_request(requests_);
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

/// The progress thread of a process, as ring::Sleeper asks it about its rest.
class Process::Impl::ProgressThread {
 public:
  explicit ProgressThread(Impl& process) : process_(process) {}

  [[nodiscard]] LaneAtRest lane(std::uint32_t number) const {
    return LaneAtRest{*process_.lanes[number]};
  }

  // Of a nap.
  [[nodiscard]] bool is_polled(std::uint32_t number) const {
    return process_.lanes[number]->turns.polled_recently;
  }
  [[nodiscard]] bool must_not_wait() const { return process_.stopping.load(); }
  [[nodiscard]] Duration how_long_to_nap() const {
    const Instant at = os::now();
    const Instant due = std::min(process_.links.due.earliest(), process_.held_events.earliest());
    return std::min(at + bounded_by(SafetyNet::Nap, Process::kNap), std::max(at, due)) - at;
  }

  // Of a sleep.
  [[nodiscard]] Instant wakes_at() {
    const Instant at = os::now();
    longest_ = bounded_by(SafetyNet::MaxSleep, kMaxSleep);
    if (process_.waiting_count.load(std::memory_order_relaxed) != 0 || has_blocked()) {
      longest_ = bounded_by(SafetyNet::SpaceWaitLimit, kSpaceWaitLimit);
    }
    const Instant due = process_.next_deadline();
    if (due != Instant::never()) {
      longest_ = std::min(longest_, std::max(due - at, Duration{}));
    }
    return at + longest_;
  }
  /// A deadline that was set since then, or something to send: the last look at rings, in and out,
  /// comes after all was announced.
  [[nodiscard]] bool finds_work(Instant wakes_at) {
    return process_.next_deadline() < wakes_at || process_.stopping.load() ||
           process_.resume_waiting() || (has_blocked() && process_.release_blocked(os::now())) ||
           longest_ <= Duration{};
  }
  [[nodiscard]] Duration how_long_to_sleep() const { return longest_; }

 private:
  [[nodiscard]] bool has_blocked() const {
    return process_.links.blocked.load(std::memory_order_relaxed) != 0;
  }

  Impl& process_;
  Duration longest_;
};

/// A doorbell can get lost by somebody's malice only; what was rung shows in the lane itself, too.
void Process::Impl::poll_all_lanes() {
  const std::size_t count = lanes.count();
  for (std::size_t i = 0; i < count; ++i) {
    if (lanes[i]->state() == LaneState::Open && lanes[i]->has_doorbell()) {
      watch(*lanes[i]);
    }
  }
}

void Process::Impl::sleep_until_woken() {
  ProgressThread thread{*this};
  switch (progress.sleeper.sleep(thread)) {
    case ring::SleepEnd::LaneHadNews:
      sched_yield();  // another thread may have it, and wait for this CPU
      break;
    case ring::SleepEnd::WorkCame:
      break;
    case ring::SleepEnd::WasAsleep:
      if (!progress.sleeper.has_doorbells() && has(SafetyNet::FullScan)) {
        poll_all_lanes();
      }
      break;
  }
}

/// Nothing came for as long as the thread spins: it naps while the application polls, and sleeps
/// otherwise.
void Process::Impl::rest(Instant at, Instant polled_at, SpinBudget& budget) {
  for_each_polled_lane([](Lane& lane) {
    if (lane.turns.thread_is_hot.load(std::memory_order_relaxed)) {
      lane.turns.thread_is_hot.store(false, std::memory_order_relaxed);
    }
  });
  if (at - polled_at < kPollingLease) {
    ProgressThread thread{*this};
    budget.note_nap(progress.sleeper.nap(thread));
  } else {
    sleep_until_woken();
  }
}

}  // namespace weft::host
