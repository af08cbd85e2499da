// The clock, sleeping, and timers.

#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>

#include <linux/delay.h>
#include <linux/jiffies.h>
#include <linux/ktime.h>
#include <linux/sched.h>
#include <linux/timer.h>

#include "os/clock.h"

namespace {

/// All timers and the thread that calls their functions; it begins with the first one.
class Timers {
 public:
  bool set(timer_list& timer, unsigned long expires) {
    const std::lock_guard lock{mutex_};
    const bool was_pending = erase(timer);
    timer.expires = expires;
    __atomic_store_n(&timer.is_pending, true, __ATOMIC_RELEASE);
    places_.emplace(&timer, times_.emplace(expires, &timer));
    if (!has_thread_) {
      has_thread_ = true;
      std::thread{[this] { serve(); }}.detach();
    }
    changes_.notify_all();
    return was_pending;
  }

  bool remove(timer_list& timer, bool waits) {
    std::unique_lock lock{mutex_};
    const bool was_pending = erase(timer);
    if (waits && std::this_thread::get_id() != thread_) {
      // Its function may set it again while it is waited for, and that counts as well.
      bool was_set_again = false;
      changes_.wait(lock, [&] {
        was_set_again = erase(timer) || was_set_again;
        return running_ != &timer;
      });
      return was_pending || was_set_again;
    }
    return was_pending;
  }

 private:
  using Times = std::multimap<unsigned long, timer_list*>;

  bool erase(timer_list& timer) {
    const auto place = places_.find(&timer);
    if (place == places_.end()) {
      return false;
    }
    times_.erase(place->second);
    places_.erase(place);
    __atomic_store_n(&timer.is_pending, false, __ATOMIC_RELEASE);
    return true;
  }

  [[noreturn]] void serve() {
    std::unique_lock lock{mutex_};
    thread_ = std::this_thread::get_id();
    for (;;) {
      if (times_.empty()) {
        changes_.wait(lock);
        continue;
      }
      timer_list* const first = times_.begin()->second;
      if (const long left = static_cast<long>(first->expires - jiffies); left > 0) {
        changes_.wait_for(lock, std::chrono::milliseconds{left});
        continue;
      }
      erase(*first);
      running_ = first;
      void (*const function)(timer_list*) = first->function;
      lock.unlock();
      function(first);  // the timer may be gone afterwards
      lock.lock();
      running_ = nullptr;
      changes_.notify_all();
    }
  }

  std::mutex mutex_;  // of what follows
  std::condition_variable changes_;
  Times times_;
  std::unordered_map<timer_list*, Times::iterator> places_;
  timer_list* running_{};
  std::thread::id thread_;
  bool has_thread_{};
};

/// Never destroyed: its thread goes on until the process ends.
[[nodiscard]] Timers& timers() {
  static Timers& all = *new Timers;
  return all;
}

}  // namespace

unsigned long weft_kenv_jiffies() {
  return static_cast<unsigned long>(weft::os::now().since_start().milliseconds());
}

ktime_t ktime_get() { return weft::os::now().since_start().nanoseconds(); }
ktime_t ktime_get_real() { return weft::os::time_of_day().nanoseconds(); }

void msleep(unsigned ms) { std::this_thread::sleep_for(std::chrono::milliseconds{ms}); }

unsigned long msleep_interruptible(unsigned ms) {
  weft_kenv_set_state(TASK_INTERRUPTIBLE);
  return static_cast<unsigned long>(schedule_timeout(static_cast<long>(ms)));
}

void usleep_range(unsigned long least, unsigned long /*most*/) {
  std::this_thread::sleep_for(std::chrono::microseconds{least});
}

void udelay(unsigned long us) {
  const ktime_t end = ktime_get() + static_cast<ktime_t>(us) * NSEC_PER_USEC;
  while (ktime_get() < end) {
  }
}

void timer_setup(struct timer_list* timer, void (*function)(struct timer_list*),
                 unsigned /*flags*/) {
  *timer = timer_list{.expires = 0, .function = function, .is_pending = false};
}

void add_timer(struct timer_list* timer) { timers().set(*timer, timer->expires); }

int mod_timer(struct timer_list* timer, unsigned long expires) {
  return timers().set(*timer, expires) ? 1 : 0;
}

int del_timer(struct timer_list* timer) { return timers().remove(*timer, false) ? 1 : 0; }
int del_timer_sync(struct timer_list* timer) { return timers().remove(*timer, true) ? 1 : 0; }

bool timer_pending(struct timer_list* timer) {
  return __atomic_load_n(&timer->is_pending, __ATOMIC_ACQUIRE);
}
