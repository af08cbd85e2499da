// Work queues. One lock for all of them: works know their queue, and waits look at several.

#include <pthread.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdarg>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <linux/kernel.h>
#include <linux/workqueue.h>

namespace {

using Sequence = std::uint64_t;

struct Item {
  work_struct* work{};
  Sequence sequence{};
};

struct State {
  std::mutex mutex;  // of all that is here and in queues
  std::condition_variable done;
  std::list<workqueue_struct*> queues;
  std::multiset<work_struct*> cancelled;  // until they do not run any more
  Sequence last{};
};

/// Never destroyed: threads of the system's queues go on until the process ends.
[[nodiscard]] State& state() {
  static State& all = *new State;
  return all;
}

}  // namespace

struct workqueue_struct {
  std::string name;
  std::size_t most_threads{};
  std::deque<Item> items;     // that wait
  std::vector<Item> running;  // by threads
  std::size_t threads{};
  std::size_t idle{};
  bool ends{};
  std::condition_variable wakes;
};

namespace {

[[nodiscard]] bool runs(const workqueue_struct& queue, const work_struct* work) {
  return std::ranges::find(queue.running, work, &Item::work) != queue.running.end();
}

/// The first that does not run already; end: none.
[[nodiscard]] auto next_item(workqueue_struct& queue) {
  return std::ranges::find_if(queue.items,
                              [&](const Item& item) { return !runs(queue, item.work); });
}

void serve(workqueue_struct* queue) {
  State& all = state();
  pthread_setname_np(pthread_self(), queue->name.substr(0, 15).c_str());
  std::unique_lock lock{all.mutex};
  for (;;) {
    ++queue->idle;
    queue->wakes.wait(lock, [&] { return queue->ends || next_item(*queue) != queue->items.end(); });
    --queue->idle;
    const auto next = next_item(*queue);
    if (next == queue->items.end()) {
      break;
    }
    const Item item = *next;
    queue->items.erase(next);
    queue->running.push_back(item);
    const work_func_t function = item.work->func;
    __atomic_store_n(&item.work->is_pending, false, __ATOMIC_RELEASE);
    lock.unlock();
    function(item.work);  // it may be gone afterwards
    lock.lock();
    std::erase_if(queue->running, [&](const Item& one) { return one.sequence == item.sequence; });
    queue->wakes.notify_all();  // what was queued again meanwhile
    all.done.notify_all();
  }
  --queue->threads;
  all.done.notify_all();
}

void enqueue(workqueue_struct& queue, work_struct& work) {
  work.queue = &queue;
  queue.items.push_back({.work = &work, .sequence = ++state().last});
  // Each has a thread where there may be one: works may wait for each other.
  if (queue.items.size() > queue.idle && queue.threads < queue.most_threads) {
    try {
      std::thread{serve, &queue}.detach();
      ++queue.threads;
    } catch (const std::system_error&) {
      BUG_ON(queue.threads == 0);  // else one of the others takes it
    }
  }
  queue.wakes.notify_one();
}

[[nodiscard]] bool is_waiting(const work_struct* work) {
  return std::ranges::any_of(state().queues, [&](const workqueue_struct* queue) {
    return std::ranges::find(queue->items, work, &Item::work) != queue->items.end();
  });
}

/// What is queued of a work, or runs, up to a sequence number.
[[nodiscard]] bool is_outstanding(const work_struct* work, Sequence until) {
  const auto is_it = [&](const Item& item) { return item.work == work && item.sequence <= until; };
  return std::ranges::any_of(state().queues, [&](const workqueue_struct* queue) {
    return std::ranges::any_of(queue->items, is_it) || std::ranges::any_of(queue->running, is_it);
  });
}

/// Takes it out of its queue. True: it was pending, there or at a timer.
bool unqueue(work_struct& work) {
  const bool was_pending = work.is_pending;
  for (workqueue_struct* const queue : state().queues) {
    std::erase_if(queue->items, [&](const Item& item) { return item.work == &work; });
  }
  __atomic_store_n(&work.is_pending, false, __ATOMIC_RELEASE);
  state().done.notify_all();
  return was_pending;
}

bool cancel_and_wait(work_struct& work, timer_list* timer) {
  State& all = state();
  {
    const std::lock_guard lock{all.mutex};
    all.cancelled.insert(&work);
  }
  if (timer != nullptr) {
    del_timer_sync(timer);  // without the lock, which its function takes
  }
  std::unique_lock lock{all.mutex};
  const bool was_pending = unqueue(work);
  all.done.wait(lock, [&, until = all.last] { return !is_outstanding(&work, until); });
  all.cancelled.erase(all.cancelled.find(&work));
  return was_pending;
}

/// The system's own, of which each is made when it is used first.
[[nodiscard]] workqueue_struct* make_queue(const char* name, std::size_t most_threads) {
  auto* const made = new workqueue_struct;
  made->name = name;
  made->most_threads = most_threads;
  const std::lock_guard lock{state().mutex};
  state().queues.push_back(made);
  return made;
}

}  // namespace

struct workqueue_struct* const system_wq = make_queue("events", WQ_DFL_ACTIVE);
struct workqueue_struct* const system_long_wq = make_queue("events_long", WQ_DFL_ACTIVE);
struct workqueue_struct* const system_unbound_wq = make_queue("events_unbound", WQ_DFL_ACTIVE);
struct workqueue_struct* const system_highpri_wq = make_queue("events_highpri", WQ_DFL_ACTIVE);

void weft_kenv_init_work(struct work_struct* work, work_func_t func) {
  *work = work_struct{.func = func, .queue = nullptr, .is_pending = false};
}

void weft_kenv_delayed_work_due(struct timer_list* timer) {
  auto* const due = container_of(timer, struct delayed_work, timer);
  const std::lock_guard lock{state().mutex};
  work_struct& work = due->work;
  // It may have been cancelled, and queued anew, since the timer went off.
  if (work.is_pending && !timer_pending(timer) && !is_waiting(&work) &&
      !state().cancelled.contains(&work)) {
    enqueue(*work.queue, work);
  }
}

struct workqueue_struct* alloc_workqueue(const char* format, unsigned flags, int max_active, ...) {
  std::array<char, 64> name{};
  va_list arguments;
  va_start(arguments, max_active);
  vscnprintf(name.data(), name.size(), format, arguments);
  va_end(arguments);
  const bool is_ordered = (flags & WEFT_KENV_WQ_ORDERED) != 0;
  const int most = is_ordered       ? 1
                   : max_active > 0 ? std::min<int>(max_active, WQ_MAX_ACTIVE)
                                    : WQ_DFL_ACTIVE;
  return make_queue(name.data(), static_cast<std::size_t>(most));
}

void drain_workqueue(struct workqueue_struct* queue) {
  std::unique_lock lock{state().mutex};
  state().done.wait(lock, [&] { return queue->items.empty() && queue->running.empty(); });
}

void destroy_workqueue(struct workqueue_struct* queue) {
  State& all = state();
  std::unique_lock lock{all.mutex};
  all.done.wait(lock, [&] { return queue->items.empty() && queue->running.empty(); });
  queue->ends = true;
  queue->wakes.notify_all();
  all.done.wait(lock, [&] { return queue->threads == 0; });
  all.queues.remove(queue);
  lock.unlock();
  delete queue;
}

void flush_workqueue(struct workqueue_struct* queue) {
  State& all = state();
  std::unique_lock lock{all.mutex};
  all.done.wait(lock, [&, until = all.last] {
    const auto is_older = [&](const Item& item) { return item.sequence <= until; };
    return std::ranges::none_of(queue->items, is_older) &&
           std::ranges::none_of(queue->running, is_older);
  });
}

bool queue_work(struct workqueue_struct* queue, struct work_struct* work) {
  State& all = state();
  const std::lock_guard lock{all.mutex};
  if (work->is_pending || all.cancelled.contains(work)) {
    return false;
  }
  __atomic_store_n(&work->is_pending, true, __ATOMIC_RELEASE);
  enqueue(*queue, *work);
  return true;
}

bool queue_delayed_work(struct workqueue_struct* queue, struct delayed_work* work,
                        unsigned long delay) {
  if (delay == 0) {
    return queue_work(queue, &work->work);
  }
  State& all = state();
  const std::lock_guard lock{all.mutex};
  if (work->work.is_pending || all.cancelled.contains(&work->work)) {
    return false;
  }
  __atomic_store_n(&work->work.is_pending, true, __ATOMIC_RELEASE);
  work->work.queue = queue;
  mod_timer(&work->timer, jiffies + delay);
  return true;
}

bool mod_delayed_work(struct workqueue_struct* queue, struct delayed_work* work,
                      unsigned long delay) {
  const bool was_pending = cancel_delayed_work(work);
  queue_delayed_work(queue, work, delay);
  return was_pending;
}

bool flush_work(struct work_struct* work) {
  State& all = state();
  std::unique_lock lock{all.mutex};
  const Sequence until = all.last;
  if (!is_outstanding(work, until)) {
    return false;
  }
  all.done.wait(lock, [&] { return !is_outstanding(work, until); });
  return true;
}

bool flush_delayed_work(struct delayed_work* work) {
  if (del_timer_sync(&work->timer) != 0) {
    const std::lock_guard lock{state().mutex};
    if (work->work.is_pending && !is_waiting(&work->work)) {
      enqueue(*work->work.queue, work->work);
    }
  }
  return flush_work(&work->work);
}

bool cancel_work(struct work_struct* work) {
  const std::lock_guard lock{state().mutex};
  return unqueue(*work);
}

bool cancel_work_sync(struct work_struct* work) { return cancel_and_wait(*work, nullptr); }

bool cancel_delayed_work(struct delayed_work* work) {
  const std::lock_guard lock{state().mutex};
  del_timer(&work->timer);
  return unqueue(work->work);
}

bool cancel_delayed_work_sync(struct delayed_work* work) {
  return cancel_and_wait(work->work, &work->timer);
}
