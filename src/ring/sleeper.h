#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/assert.h"
#include "base/live_bug.h"
#include "base/time.h"
#include "ring/atomics.h"
#include "ring/doorbell.h"
#include "ring/doorbell_bitmap.h"
#include "ring/sleep_table.h"

namespace weft::ring {

/// The futex of tests and of the live driver: `wait` returns at once unless the word holds
/// `expected`, and otherwise when `wake` is called or `longest` is over.
template <class Futex>
concept IsFutex = requires(std::atomic<std::uint32_t>& word, Duration longest) {
  Futex::wait(word, std::uint32_t{}, longest);
  Futex::wake(word);
};

/// What a process shares with all its peers, so that they can wake it: they add the number of their
/// lane, change the word and wake who waits for it. They all may write it: a hostile peer can wake
/// for nothing, hide a doorbell, and take back a wake of others just before the sleep, so no sleep
/// is long.
template <class Atomics = RealAtomics>
struct BasicAttentionPage {
  std::atomic<std::uint32_t> wake{};  // the futex word
  BasicDoorbellBitmap<Atomics> rung;
};

/// Wakes the thread that sleeps, or is about to, behind this page.
template <IsFutex Futex, class Atomics>
void wake(BasicAttentionPage<Atomics>& page) {
  Atomics::fetch_add(page.wake, 1, std::memory_order_release);
  Futex::wake(page.wake);
}

/// Producer, after it published: rings the doorbell of its lane, which is `number` there, if the
/// consumer has asked for it.
template <IsFutex Futex, class Atomics>
void ring_doorbell(Attention& attention, const std::atomic<std::uint32_t>& number,
                   BasicAttentionPage<Atomics>& page, bool is_urgent) {
  if (must_wake<Atomics>(attention, is_urgent)) {
    if (!planted(LiveBug::DoorbellNotAdded)) {
      page.rung.add(Atomics::load(number, std::memory_order_relaxed));
    }
    wake<Futex>(page);
  }
}

/// How an attempt to sleep ended.
enum class SleepEnd : std::uint8_t { LaneHadNews, WorkCame, WasAsleep };

/// What the last look at a lane came to. Owned: another thread is at its rings.
enum class LastLook : std::uint8_t { Nothing, News, Owned };

/// Who looks at the rings of a process, who waits, and who must wake whom
/// (docs/ARCHITECTURE.md, decision 4), as ring/sleep_table.h says. One progress thread calls nap()
/// and sleep(); any thread calls the rest. The explorer tries all of it
/// (ring/sleeper_interleaving_test.cc).
///
/// Why no wake is lost: whoever leaves something to the thread publishes it, makes a full fence,
/// and reads the thread's state; the thread announces its state, makes a full fence, and looks once
/// more. One of the two sees the other's store.
///
/// Members lie apart by who writes them, since cache lines are what latency is made of.
template <IsFutex Futex, class Atomics = RealAtomics>
class Sleeper {
 public:
  using Page = BasicAttentionPage<Atomics>;

  /// Before anything else; `page` outlives this.
  void attach(Page& page) { page_ = &page; }

  // --- lanes that the thread looks at

  [[nodiscard]] bool watches(std::uint32_t number) const { return watched_.has(number); }
  template <class Visit>
  void for_each_polled_lane(Visit visit) const {
    watched_.for_each(visit);
  }
  /// Alone for the thread itself, and before a notify(); others hand_over().
  void watch(std::uint32_t number) {
    if (!watched_.has(number)) {
      watched_.add(number);
    }
  }
  void forget(std::uint32_t number) { watched_.remove(number); }

  // --- the application

  /// It polls: what it looks at is its business until it is about to wait, or has not polled for a
  /// while.
  void begin_lease() {
    if (Atomics::load(lease_ended_, std::memory_order_relaxed) != 0) {
      Atomics::store(lease_ended_, 0, std::memory_order_relaxed);
    }
  }
  /// It is about to wait: the thread takes over at once.
  void end_lease() {
    Atomics::store(lease_ended_, 1, std::memory_order_relaxed);
    notify(ThreadEvent::LeaseEnded);
  }
  [[nodiscard]] bool has_lease() const {
    return Atomics::load(lease_ended_, std::memory_order_acquire) == 0;
  }

  /// Lanes that were rung are looked at from now on, if `exists(number)`: peers write what they
  /// like. The consumer of a doorbell must wake the sleeper, which may have missed both the
  /// doorbell and the ring: the peer will not ring again.
  template <class Exists>
  void consume_doorbells(Exists exists) {
    if (has_doorbells()) [[unlikely]] {
      take_doorbells(exists);
    }
  }

  [[nodiscard]] bool has_doorbells() const { return !page_->rung.is_quiet(); }

  // --- whoever leaves something to the thread

  /// A record without a doorbell lies in the lane: the thread looks at it from now on.
  void hand_over(std::uint32_t number) {
    fence_for_the_thread();
    watch(number);
    wake_if_it_may_miss(ThreadEvent::WorkLeft);
  }
  /// Something else was left to it, and published before this call.
  void notify(ThreadEvent event) {
    fence_for_the_thread();
    wake_if_it_may_miss(event);
  }
  /// A deadline was set that the thread is to keep: for who has just published it.
  void notify_deadline(Instant deadline) {
    fence_for_the_thread();
    if (deadline.since_start().nanoseconds() <
        Atomics::load(wakes_at_ns_, std::memory_order_relaxed)) {
      wake_if_it_may_miss(ThreadEvent::DeadlineSet);
    }
  }
  /// In any state, as for a thread that is to end.
  void wake_now() { wake<Futex>(*page_); }

  // --- the progress thread

  /// Waits for a moment, while the application polls. True if something came meanwhile that it did
  /// not take. `thread` says:
  ///   lane(number)       a lane, with is_open(), attention() (null if nobody can ring), try_own()
  ///                      and disown() of its rings, and has_something(Sleep) for their owner;
  ///   is_polled(number)  the application polls this lane;
  ///   must_not_wait();   how_long_to_nap().
  template <class Thread>
  [[nodiscard]] bool nap(Thread& thread);

  /// Waits until somebody wakes it. `thread` also says when it wakes by itself, by what it knows
  /// (wakes_at()), what there is to do that rings no doorbell, or has come since it said so
  /// (finds_work()), and how long to wait at most (how_long_to_sleep()).
  template <class Thread>
  [[nodiscard]] SleepEnd sleep(Thread& thread);

 private:
  /// Between what was published and the look at what the thread does.
  static void fence_for_the_thread() {
    if (!planted(LiveBug::NotifiedWithoutFence)) {
      Atomics::fence();
    }
  }
  template <class Exists>
  [[gnu::noinline]] void take_doorbells(Exists exists) {
    const auto consume = [&](std::uint32_t number) {
      static_cast<void>(planted_late(LiveBug::DoorbellConsumedSilently));
      if (exists(number)) {
        Atomics::fence();
        watch(number);
      }
    };
    if (planted(LiveBug::DoorbellClearedLate)) {
      page_->rung.for_each(consume);
      page_->rung.take([](std::uint32_t) {});
    } else {
      page_->rung.take(consume);
    }
    if (!planted(LiveBug::DoorbellConsumedSilently)) {
      wake_if_it_may_miss(ThreadEvent::DoorbellConsumed);
    }
  }

  /// After the fence of who published something.
  void wake_if_it_may_miss(ThreadEvent event) {
    const std::uint32_t state = Atomics::load(state_, std::memory_order_relaxed);
    if ((kStatesToWakeIn[static_cast<std::size_t>(event)] >> state & 1U) != 0) [[unlikely]] {
      wake_now();
    }
  }

  /// The thread's own state changes by the table alone.
  Duty step(ThreadEvent event) {
    const auto state = static_cast<ThreadState>(Atomics::load(state_, std::memory_order_relaxed));
    const ThreadRow* const row = find_row(kThreadTable, state, event);
    WEFT_DEBUG_ASSERT(row != nullptr, "the table has a row for each event of each state");
    Atomics::store(state_, static_cast<std::uint32_t>(row->next), std::memory_order_relaxed);
    if (row->duty == Duty::LookOnceMore) {
      Atomics::fence();
    }
    return row->duty;
  }

  template <class Lane>
  [[nodiscard]] static LastLook ask_and_look(Lane lane, LaneEvent event);
  template <class Lane>
  static void say_awake(Lane lane) {
    if (Attention* const attention = lane.attention()) {
      announce_awake<Atomics>(*attention);
    }
  }
  template <class Thread>
  [[nodiscard]] bool stop_watching(Thread& thread);

  static constexpr auto kStatesToWakeIn = [] {
    std::array<std::uint32_t, kThreadEvents> states{};
    for (std::size_t event = 0; event < kThreadEvents; ++event) {
      states[event] = states_to_wake_in(static_cast<ThreadEvent>(event));
    }
    return states;
  }();

  // The application's.
  alignas(64) std::atomic<std::uint32_t> lease_ended_{1};
  Page* page_{};
  // The thread's.
  alignas(64) std::atomic<std::uint32_t> state_{};  // a ThreadState
  std::atomic<std::int64_t> wakes_at_ns_{};         // while it sleeps, and no later than it wakes
  // Everybody's.
  BasicDoorbellBitmap<Atomics> watched_;
};

/// Has the peer ring from now on, and then looks once more. Who is at the rings right now might
/// wait for this very CPU.
template <IsFutex Futex, class Atomics>
template <class Lane>
LastLook Sleeper<Futex, Atomics>::ask_and_look(Lane lane, LaneEvent event) {
  if (!lane.try_own()) {
    return LastLook::Owned;
  }
  const Sleep sleep = asked_by(event);
  const auto ask = [&] {
    if (Attention* const attention = lane.attention()) {
      announce_sleep<Atomics>(*attention, sleep);
    } else {
      Atomics::fence();  // that the lane is not watched is all that a sender can see
    }
  };
  if (!planted(LiveBug::SleepAnnouncedTooLate)) {
    ask();
  }
  const bool has_news = lane.has_something(sleep);
  if (planted_late(LiveBug::SleepAnnouncedTooLate)) {
    ask();
  }
  lane.destroy_unreported();
  return has_news ? LastLook::News : LastLook::Nothing;
}

/// Every lane that was looked at is asked to ring from now on; those that have something already
/// are looked at again. True if there are such.
template <IsFutex Futex, class Atomics>
template <class Thread>
bool Sleeper<Futex, Atomics>::stop_watching(Thread& thread) {
  bool has_news = false;
  watched_.take([&](std::uint32_t number) {
    auto lane = thread.lane(number);
    const bool looks = !planted_late(LiveBug::FinalScanSkipped);
    if (lane.is_open() && ask_and_look(lane, LaneEvent::Sleep) != LastLook::Nothing && looks) {
      say_awake(lane);
      watched_.add(number);
      has_news = true;
    }
  });
  return has_news;
}

template <IsFutex Futex, class Atomics>
template <class Thread>
SleepEnd Sleeper<Futex, Atomics>::sleep(Thread& thread) {
  const std::uint32_t seen = Atomics::load(page_->wake, std::memory_order_acquire);
  step(ThreadEvent::Idle);
  if (stop_watching(thread)) {
    step(ThreadEvent::FinalScanFound);
    return SleepEnd::LaneHadNews;
  }
  const Instant wakes_at = thread.wakes_at();
  Atomics::store(wakes_at_ns_, wakes_at.since_start().nanoseconds(), std::memory_order_relaxed);
  Atomics::fence();
  const bool has_work = has_doorbells() || thread.finds_work(wakes_at);
  if (step(has_work ? ThreadEvent::FinalScanFound : ThreadEvent::FinalScanEmpty) == Duty::Wait) {
    Futex::wait(page_->wake, seen, thread.how_long_to_sleep());
    step(ThreadEvent::WaitEnded);
  }
  Atomics::store(wakes_at_ns_, 0, std::memory_order_relaxed);
  return has_work ? SleepEnd::WorkCame : SleepEnd::WasAsleep;
}

template <IsFutex Futex, class Atomics>
template <class Thread>
bool Sleeper<Futex, Atomics>::nap(Thread& thread) {
  const std::uint32_t seen = Atomics::load(page_->wake, std::memory_order_acquire);
  step(ThreadEvent::IdleWhilePolled);
  bool has_news = false;
  for_each_polled_lane([&](std::uint32_t number) {
    auto lane = thread.lane(number);
    const auto event =
        thread.is_polled(number) ? LaneEvent::NapWhilePolled : LaneEvent::NapUnpolled;
    if (lane.is_open() && ask_and_look(lane, event) == LastLook::News) {
      has_news = true;
    }
  });
  const bool goes_on = has_news || !has_lease() || thread.must_not_wait();
  Duty duty = step(goes_on ? ThreadEvent::FinalScanFound : ThreadEvent::FinalScanEmpty);
  if (duty == Duty::Wait) {
    Futex::wait(page_->wake, seen, thread.how_long_to_nap());
    duty = step(ThreadEvent::WaitEnded);
  }
  if (duty == Duty::SayAwake && !planted(LiveBug::NapEndNotSaid)) {
    for_each_polled_lane([&](std::uint32_t number) { say_awake(thread.lane(number)); });
  }
  return has_news || Atomics::load(page_->wake, std::memory_order_relaxed) != seen;
}

}  // namespace weft::ring
