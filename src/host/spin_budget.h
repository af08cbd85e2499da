#pragma once

#include <algorithm>
#include <utility>

#include "base/time.h"

namespace weft::host {

/// For how long the progress thread polls empty rings before it naps or sleeps
/// (docs/ARCHITECTURE.md, decision 4). Pure: time is handed in. One thread.
///
/// Spinning pays only when everybody who spins has a CPU. A nap that work cuts short took longer to
/// end than waiting would have, and if the other side naps for the same reason, each wakes the
/// other for ever: then the thread spins for longer, and for less once naps last.
class SpinBudget {
 public:
  static constexpr Duration kLeast = Duration::microseconds(20);     // policy
  static constexpr Duration kLongest = Duration::microseconds(320);  // policy

  SpinBudget(bool has_cpus_to_spin, Instant at)
      : least_(has_cpus_to_spin ? kLeast : Duration{}), budget_(least_), worked_at_(at) {}

  [[nodiscard]] bool spins() const { return budget_ > Duration{}; }

  void note_work(Instant at) { worked_at_ = at; }

  /// Nothing came for too long, and nothing will arrive soon.
  [[nodiscard]] bool is_spent(Instant at, Instant next_arrival) const {
    return at - worked_at_ >= budget_ && next_arrival - at >= budget_;
  }

  void note_nap(bool was_cut_short) {
    budget_ = was_cut_short ? std::min(budget_ * 2, kLongest) : budget_ / 2;
  }
  /// After each rest.
  void begin_anew(bool is_contended) {
    budget_ = is_contended ? Duration{} : std::max(budget_, least_);
  }

  [[nodiscard]] Duration budget() const { return budget_; }

 private:
  Duration least_;
  Duration budget_;
  Instant worked_at_;
};

/// Whether a thread loses its CPU to others: spinning beside them costs all of them. Pure. Asked
/// with how often it has lost its CPU so far (getrusage(2), ru_nivcsw), now and then, since knowing
/// that is a system call.
class Contention {
 public:
  // Policy: so often only a thread is switched that shares its CPU with others that are woken all
  // the time; one that loses a time slice now and then is better off spinning.
  static constexpr Duration kPeriod = Duration::milliseconds(50);
  static constexpr Duration kBetweenSwitches = Duration::milliseconds(2);
  static constexpr long kLeastSwitches = 4;

  /// `count_switches()` is called at most once a period.
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

}  // namespace weft::host
