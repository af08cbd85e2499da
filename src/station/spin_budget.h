#pragma once

#include <algorithm>
#include <utility>

#include "base/time.h"

namespace weft::station {

/// How long the progress thread polls empty rings before it naps or sleeps
/// (docs/ARCHITECTURE.md, decision 4). Pure: the caller passes the time. One thread.
///
/// Spinning pays only if every spinning thread has a CPU. A nap that is cut short by work cost more
/// than spinning would have, and if the peer naps for the same reason, the two keep waking each
/// other. So the budget doubles after a nap that was cut short, and halves after one that was not.
class SpinBudget {
 public:
  static constexpr Duration kLeast = Duration::microseconds(20);     // policy
  static constexpr Duration kLongest = Duration::microseconds(320);  // policy

  SpinBudget(bool has_cpus_to_spin, Instant at)
      : least_(has_cpus_to_spin ? kLeast : Duration{}), budget_(least_), worked_at_(at) {}

  [[nodiscard]] bool spins() const { return budget_ > Duration{}; }

  /// The thread found work.
  void note_work(Instant at) { worked_at_ = at; }

  /// True if nothing came for the whole budget, and the next packet under way arrives later than a
  /// budget from now.
  [[nodiscard]] bool is_spent(Instant at, Instant next_arrival) const {
    return at - worked_at_ >= budget_ && next_arrival - at >= budget_;
  }

  /// A nap ended, because of work or because its time was over.
  void note_nap(bool was_cut_short) {
    budget_ = was_cut_short ? std::min(budget_ * 2, kLongest) : budget_ / 2;
  }
  /// Call after each nap or sleep.
  void begin_anew(bool is_contended) {
    budget_ = is_contended ? Duration{} : std::max(budget_, least_);
  }

  [[nodiscard]] Duration budget() const { return budget_; }

 private:
  Duration least_;
  Duration budget_;
  Instant worked_at_;
};

/// Detects that a thread loses its CPU to others, where spinning costs all of them. Pure. It takes
/// the number of involuntary context switches (getrusage(2), ru_nivcsw), and asks for it rarely,
/// since reading it is a system call. One thread.
class Contention {
 public:
  // Policy: only a thread that shares its CPU with threads that are woken continually is switched
  // this often. One that loses a time slice now and then should go on spinning.
  static constexpr Duration kPeriod = Duration::milliseconds(50);
  static constexpr Duration kBetweenSwitches = Duration::milliseconds(2);
  static constexpr long kLeastSwitches = 4;

  /// `count_switches()` is called at most once per period.
  template <class CountSwitches>
  [[nodiscard]] bool is_contended(Instant at, CountSwitches count_switches) {
    const Duration passed = at - asked_at_;
    if (passed > kPeriod) {
      const long switches = count_switches();
      const long lost = switches - std::exchange(switches_, switches);
      is_crowded_ = lost >= kLeastSwitches && passed < kBetweenSwitches * lost;
      asked_at_ = at;
    }
    return is_crowded_;
  }

 private:
  long switches_{};
  Instant asked_at_{};
  bool is_crowded_{};
};

}  // namespace weft::station
