// Who looks at rings, and when: the application that polls, the thread that serves one which does
// not (docs/ARCHITECTURE.md, decision 4), and what both keep up: lines and timers.

#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "base/live_bug.h"
#include "base/process_slot.h"
#include "hca/packet_record.h"
#include "host/process_impl.h"
#include "os/clock.h"
#include "os/futex.h"
#include "os/schedule.h"

namespace weft::host {
namespace {

/// Polls in vain, of some 50 ns each, before a CPU is offered to others; policy. Powers of two.
constexpr std::uint32_t kPollsBeforeYield = 256;
constexpr std::uint32_t kPollsBeforeYieldInACrowd = 16;  // or on few CPUs

/// While senders wait for room, how long the thread sleeps at most: their peers may be stopped.
constexpr Duration kRoomPatience = Duration::milliseconds(1);

/// Bells and wakes are hints, which a liar among the peers may take back (AttentionPage): who
/// sleeps looks at everything this often.
constexpr Duration kLongestSleep = Duration::seconds(1);

/// How long a thread spins whose naps do not last; policy.
constexpr Duration kLongestSpin = Duration::microseconds(320);

/// Of the spinning thread; policy.
constexpr unsigned kRoundsBetweenLooks = 16;

/// While the thread is hot, the application looks for requests only when it was told that there is
/// a SEND, or after so many polls in vain: then the thread has much to do.
constexpr std::uint32_t kPollsBetweenLooks = 16;

/// Reading the clock costs as much as the rest of a look. A program that polls more seldom than the
/// thread waits for it has its timers seen to by the thread.
constexpr std::uint32_t kPollsBetweenTimers = 8;

/// Before a ring that another thread has is taken for one with news; a look takes less.
constexpr int kTriesAtARing = 1'000;

/// Answers to an application that polled so lately are left to it: it is the one that waits for
/// them, and what they change lies in its cache; policy.
constexpr Duration kPatienceWithAnswers = Duration::microseconds(5);

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

/// Whether this thread loses its CPU to others: spinning beside them costs all of them. Asked when
/// a spin has ended without work, which makes a system call anyway.
class Crowding {
 public:
  [[nodiscard]] bool is_crowded(Instant at) {
    const Duration passed = at - asked_at_;
    if (passed > kPeriod) {
      rusage usage{};
      getrusage(RUSAGE_THREAD, &usage);
      const long lost = usage.ru_nivcsw - std::exchange(switches_, usage.ru_nivcsw);
      crowded_ = lost >= kLeast && passed < kBetweenSwitches * lost;
      asked_at_ = at;
    }
    return crowded_;
  }

 private:
  // Policy: so often only a thread is switched that shares its CPU with others that are woken all
  // the time; one that loses a time slice now and then is better off spinning.
  static constexpr Duration kPeriod = Duration::milliseconds(50);
  static constexpr Duration kBetweenSwitches = Duration::milliseconds(2);
  static constexpr long kLeast = 4;
  long switches_{};
  Instant asked_at_{};
  bool crowded_{};
};

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
  if (lease_ended.load(std::memory_order_relaxed)) {
    lease_ended.store(false, std::memory_order_relaxed);
  }
  answer_bells();
  const std::uint32_t in_vain = cq.in_vain.load(std::memory_order_relaxed);
  std::size_t taken = 0;
  const auto look = [&](std::uint32_t number) {
    taken += look_for_application(*lanes[number], in_vain);
  };
  Lane* const only = cq.only_lane.load(std::memory_order_acquire);
  if (cq.takes_all.load(std::memory_order_relaxed)) {
    watched.for_each(look);
  } else if (only != nullptr) {
    taken = watched.has(only->number) ? look_for_application(*only, in_vain) : 0;
  } else {
    cq.lanes.for_each([&](std::uint32_t number) {
      if (watched.has(number)) {
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

/// What the thread looks at: what the application does not see to.
std::size_t Process::Impl::look_for_thread(Lane& lane, bool spins) {
  Lane::Turns& turns = lane.turns;
  std::size_t taken = turns.polled_lately ? 0 : take_responses(lane);
  if (take_requests(lane, turns.polls_now, false) != 0) {
    ++taken;
    if (spins && !turns.thread_is_hot.load(std::memory_order_relaxed)) {
      turns.thread_is_hot.store(true, std::memory_order_relaxed);
    }
  }
  return taken;
}

/// Whoever looks at rings serves lines and timers, too, and lets arrive what is under way.
void Process::Impl::keep_up(bool timers_too) {
  if (links.due.earliest() != Instant::never()) [[unlikely]] {
    release_arrived();
  }
  if (links.blocked.load(std::memory_order_relaxed) != 0) [[unlikely]] {
    release_blocked(os::now());
  }
  const bool has_lines = waiting_count.load(std::memory_order_relaxed) != 0;
  const Instant earliest = timers_too ? timers.earliest() : Instant::never();
  if (!has_lines && (earliest == Instant::never() || clock.read() < earliest)) {
    return;
  }
  if (upkeep_owner.try_lock()) {
    const std::lock_guard owner{upkeep_owner, std::adopt_lock};
    resume_waiting_as_owner();
    handle_timers(clock.read());
  }
}

/// Lanes that were rung are looked at from now on. The thread may be about to sleep, having seen
/// neither the bell that is taken here nor the lane: its peer would ring no more.
void Process::Impl::answer_bells() {
  if (!attention->rung.is_quiet()) {
    attention->rung.take([this](std::uint32_t number) {
      if (number < lanes.count()) {
        watch(*lanes[number]);
      }
    });
    wake_thread();
  }
}

/// A bell can get lost by somebody's malice only; what was rung shows in the lane itself, too.
void Process::Impl::look_at_all() {
  const std::size_t count = lanes.count();
  for (std::size_t i = 0; i < count; ++i) {
    if (lanes[i]->state() == LaneState::Open && lanes[i]->was_rung()) {
      watch(*lanes[i]);
    }
  }
}

/// Whether something lies in the rings of the peer's answers, or another of our threads is just
/// taking it. Who has a ring longer than a look takes is at work with it, or was stopped at it.
bool Process::Impl::answers_wait(const Lane& lane) {
  if (planted(LiveBug::UnreadAnswerCounted)) {
    return false;
  }
  const std::uint32_t first = lane.number - lane.index;
  for (std::uint32_t index = 0; index < kLanesPerPair; ++index) {
    Lane::In& responses = lanes[first + index]->in(hca::Flow::Response);
    std::unique_lock owner{responses.owner, std::defer_lock};
    for (int tries = 0; !owner.try_lock(); ++tries) {
      if (tries == kTriesAtARing) {
        return true;
      }
      pause();
    }
    if (lanes[first + index]->state() == LaneState::Open &&
        responses.ring.look().state == ring::Consumer<>::State::Record) {
      return true;
    }
  }
  return false;
}

/// A descheduled peer is not a lost packet, nor is an answer that we were too slow to read: an
/// expiry counts only once the peer has read all that was sent to it, and still has not answered,
/// or is gone, or links lose answers (docs/ARCHITECTURE.md, decision 7). It says so after its
/// answers are in our rings, so that we ask in this order.
void Process::Impl::handle_timers(Instant at) {
  while (QpCarrier* const carrier = timers.take_due(at)) {
    carrier->armed_ns.store(QpCarrier::kNotArmed, std::memory_order_relaxed);
    if (carrier->qp->deadline() <= at) {
      static_cast<void>(planted_late(LiveBug::UnreadAnswerCounted));
      Lane* const lane = carrier->lane.load(std::memory_order_acquire);
      if (lane == nullptr || planted(LiveBug::StoppedPeerCounted) ||
          (lane->may_have_lost(*carrier) && !answers_wait(*lane))) {
        carrier->qp->report_loss();
      }
      carrier->qp->handle_timeout(at);
      carry(*carrier, at, kAnswerBudget);
    }
    arm(*carrier);
  }
}

/// After a poll that found nothing. Where programs outnumber CPUs, the peer that this one waits for
/// may be waiting for this very CPU.
void Process::Impl::let_others_run(std::uint32_t in_vain) {
  const bool is_crowded = shares_cpus.load(std::memory_order_relaxed);
  if ((in_vain & ((is_crowded ? kPollsBeforeYieldInACrowd : kPollsBeforeYield) - 1)) == 0) {
    sched_yield();
  }
}

/// Asks the peer to ring from now on. Who owns a ring right now might wait for this CPU.
Process::Impl::Rest Process::Impl::rest(Lane& lane, ring::Sleep sleep) {
  Lane::In& requests = lane.in(hca::Flow::Request);
  Lane::In& responses = lane.in(hca::Flow::Response);
  if (std::try_lock(requests.owner, responses.owner) != -1) {
    return Rest::Owned;
  }
  const std::scoped_lock owners{std::adopt_lock, requests.owner, responses.owner};
  if (!planted(LiveBug::SleepAnnouncedLate)) {
    lane.announce_sleep(sleep);
  }
  bool has_news = false;
  if (sleep == ring::Sleep::Napping) {
    has_news = has_one_sided_request(requests);
  } else {
    lane.tell_room();
    has_news = lane.has_news();
  }
  if (planted_late(LiveBug::SleepAnnouncedLate)) {
    lane.announce_sleep(sleep);
  }
  return has_news ? Rest::HasNews : Rest::Asleep;
}

/// Every lane that was looked at is asked to ring from now on; those that have something already
/// are looked at again. True if there are such.
bool Process::Impl::stop_looking() {
  bool anything = false;
  watched.take([&](std::uint32_t number) {
    Lane& lane = *lanes[number];
    const bool looks = !planted_late(LiveBug::LastLookLeftOut);
    if (lane.state() == LaneState::Open && rest(lane, ring::Sleep::Sound) != Rest::Asleep &&
        looks) {
      lane.announce_awake();
      watched.add(number);
      anything = true;
    }
  });
  if (anything) {
    sched_yield();
  }
  return anything;
}

void Process::Impl::sleep_until_woken(Instant at) {
  const std::uint32_t seen = attention->wake.load(std::memory_order_acquire);
  thread_sleeps.store(true, std::memory_order_seq_cst);
  const bool anything = stop_looking();
  Duration longest = bounded_by(SafetyNet::LongestSleep, kLongestSleep);
  if (waiting_count.load(std::memory_order_relaxed) != 0 ||
      links.blocked.load(std::memory_order_relaxed) != 0) {
    longest = bounded_by(SafetyNet::RoomPatience, kRoomPatience);
  }
  const Instant due = next_deadline();
  if (due != Instant::never()) {
    longest = std::min(longest, std::max(due - at, Duration{}));
  }
  thread_wakes_at_ns.store((at + longest).since_start().nanoseconds(), std::memory_order_seq_cst);
  const bool late = next_deadline() < at + longest;
  // The last look at rings, in and out, comes after all was announced: that is why no wake is lost.
  bool has_slept = false;
  if (!late && !anything && !stopping.load() && attention->rung.is_quiet() && !resume_waiting() &&
      (links.blocked.load(std::memory_order_relaxed) == 0 || !release_blocked(os::now())) &&
      longest > Duration{}) {
    os::futex_wait(attention->wake, seen, longest);
    has_slept = true;
  }
  thread_sleeps.store(false, std::memory_order_relaxed);
  thread_wakes_at_ns.store(0, std::memory_order_relaxed);
  if (has_slept && attention->rung.is_quiet() && has(SafetyNet::LookAtAll)) {
    look_at_all();
  }
}

/// While the application polls, the thread rests for a moment. A one-sided request, which the
/// application does not take, ends it, and whatever comes where the application does not look; true
/// if something did.
bool Process::Impl::nap() {
  const std::uint32_t seen = attention->wake.load(std::memory_order_acquire);
  thread_naps.store(true, std::memory_order_seq_cst);
  bool anything = false;
  for_each_watched([&](Lane& lane) {
    if (lane.state() == LaneState::Open) {
      const auto sleep = lane.turns.polled_lately ? ring::Sleep::Napping : ring::Sleep::Sound;
      anything = rest(lane, sleep) == Rest::HasNews || anything;
    }
  });
  if (!anything && !lease_ended.load(std::memory_order_seq_cst) && !stopping.load()) {
    const Instant at = os::now();
    const Instant end =
        std::min(at + bounded_by(SafetyNet::Nap, Process::kNap),
                 std::max(at, std::min(links.due.earliest(), held_events.earliest())));
    os::futex_wait(attention->wake, seen, end - at);
  }
  thread_naps.store(false, std::memory_order_relaxed);
  for_each_watched([](Lane& lane) { lane.announce_awake(); });
  return anything || attention->wake.load(std::memory_order_relaxed) != seen;
}

/// Which lanes the application looks at; when it last looked at any. It writes those lines: not
/// every round.
Instant Process::Impl::look_at_polls(Instant at) {
  const bool has_lease = !lease_ended.load(std::memory_order_seq_cst);
  Instant newest{};
  for_each_watched([&](Lane& lane) {
    Lane::Turns& turns = lane.turns;
    const std::uint64_t polls = turns.polls.load(std::memory_order_relaxed);
    if (polls != turns.seen_polls || planted(LiveBug::LeaseNeverStale)) {
      turns.seen_polls = polls;
      turns.polled_at = at;
    }
    turns.polls_now = has_lease && at - turns.polled_at < Process::kFreshPoll;
    turns.polled_lately = has_lease && at - turns.polled_at < kPatienceWithAnswers;
    newest = std::max(newest, turns.polled_at);
  });
  return has_lease ? newest : Instant{};
}

void Process::Impl::run_progress() {
  os::ask_to_run_promptly();
  const bool spins = has_cpus_to_spin();
  const Duration least_budget = spins ? Process::kSpinBudget : Duration{};
  Duration budget = least_budget;
  Crowding crowding;
  shares_cpus.store(!spins, std::memory_order_relaxed);
  Instant polled_at{};  // when a new poll of the application was last seen
  Instant worked_at = os::now();
  for (unsigned round = 0; !stopping.load(std::memory_order_relaxed); ++round) {
    const Instant at = clock.read();
    answer_bells();
    if (round % kRoundsBetweenLooks == 0) {
      polled_at = look_at_polls(at);
    }
    std::size_t taken = 0;
    for_each_watched([&](Lane& lane) { taken += look_for_thread(lane, budget > Duration{}); });
    if (at - polled_at >= kPatienceWithAnswers) {
      keep_up(true);
    }
    tell_held_events(at);
    if (taken != 0 && !planted_late(LiveBug::DeadLaneNotDrained)) {
      worked_at = at;
      continue;
    }
    if (at - worked_at < budget || links.due.earliest() - at < budget) {
      pause();
      continue;
    }
    for_each_watched([](Lane& lane) {
      if (lane.turns.thread_is_hot.load(std::memory_order_relaxed)) {
        lane.turns.thread_is_hot.store(false, std::memory_order_relaxed);
      }
    });
    const bool is_crowded = crowding.is_crowded(at);
    if (at - polled_at < kPollingLease) {
      // Work during a nap: waking took longer than waiting would have, and if the other side naps
      // for the same reason, each wakes the other for ever.
      budget = nap() ? std::min(budget * 2, kLongestSpin) : budget / 2;
    } else {
      sleep_until_woken(os::now());
    }
    budget = is_crowded ? Duration{} : std::max(budget, least_budget);
    shares_cpus.store(!spins || is_crowded, std::memory_order_relaxed);
    round = kRoundsBetweenLooks - 1;
  }
}

}  // namespace weft::host
