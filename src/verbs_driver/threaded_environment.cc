#include "verbs_driver/threaded_environment.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "os/clock.h"

namespace weft::verbs_driver {
namespace {

// Policy. A task that waits for another keeps its thread: so many may do so at once.
constexpr unsigned kUnboundThreads = 3;
constexpr unsigned kMostUnboundThreads = 64;

[[nodiscard]] std::chrono::nanoseconds span_of(Duration span) {
  return std::chrono::nanoseconds{span.nanoseconds()};
}

}  // namespace

ThreadedEnvironment::ThreadedEnvironment(Log log, unsigned processors)
    : log_(std::move(log)), processors_(processors) {
  for (auto& queues : bound_) {
    for (unsigned i = 0; i < processors; ++i) {
      queues.push_back(std::make_unique<Queue>());
      threads_.emplace_back([this, queue = queues.back().get()] { serve(*queue); });
    }
  }
  for (; unbound_threads_ < kUnboundThreads; ++unbound_threads_) {
    threads_.emplace_back([this] { serve(unbound_); });
  }
  threads_.emplace_back([this] { serve_delays(); });
}

ThreadedEnvironment::~ThreadedEnvironment() { join(); }

void ThreadedEnvironment::join() {
  {
    const std::lock_guard lock{mutex_};
    stops_ = true;
    for (auto& queues : bound_) {
      for (auto& queue : queues) {
        queue->wakes.notify_all();
      }
    }
    unbound_.wakes.notify_all();
    delayed_wakes_.notify_all();
  }
  for (std::thread& thread : threads_) {
    if (thread.joinable()) {
      thread.join();
    }
  }
}

Instant ThreadedEnvironment::now() const { return os::now(); }

ThreadedEnvironment::Queue& ThreadedEnvironment::queue_of(core::WorkContext context,
                                                          unsigned vector) {
  return context == core::WorkContext::UnboundWorkQueue
             ? unbound_
             : *bound_[static_cast<std::size_t>(context)][vector % processors_];
}

void ThreadedEnvironment::post(core::Task& task, core::WorkContext context, unsigned vector,
                               Duration delay) {
  const std::lock_guard lock{mutex_};
  Queue& queue = queue_of(context, vector);
  if (delay > Duration{}) {
    delayed_.emplace(now() + delay, Delayed{.task = &task, .queue = &queue});
    delayed_wakes_.notify_one();
    return;
  }
  add(queue, task);
}

void ThreadedEnvironment::add(Queue& queue, core::Task& task) {
  queue.tasks.push_back(&task);
  queue.wakes.notify_one();
  if (&queue == &unbound_ && queue.idle < queue.tasks.size() && !stops_ &&
      unbound_threads_ < kMostUnboundThreads) {
    ++unbound_threads_;
    threads_.emplace_back([this] { serve(unbound_); });
  }
}

bool ThreadedEnvironment::revoke(core::Task& task) {
  const std::lock_guard lock{mutex_};
  const auto take = [&](Queue& queue) { return std::erase(queue.tasks, &task) != 0; };
  for (auto& queues : bound_) {
    for (auto& queue : queues) {
      if (take(*queue)) {
        return true;
      }
    }
  }
  return take(unbound_) ||
         std::erase_if(delayed_, [&](const auto& one) { return one.second.task == &task; }) != 0;
}

void ThreadedEnvironment::serve(Queue& queue) {
  std::unique_lock lock{mutex_};
  for (;;) {
    ++queue.idle;
    queue.wakes.wait(lock, [&] { return stops_ || !queue.tasks.empty(); });
    --queue.idle;
    if (queue.tasks.empty()) {
      return;
    }
    core::Task& task = *queue.tasks.front();
    queue.tasks.pop_front();
    lock.unlock();
    task.run();  // it may be gone afterwards
    lock.lock();
  }
}

void ThreadedEnvironment::serve_delays() {
  std::unique_lock lock{mutex_};
  while (!stops_) {
    if (delayed_.empty()) {
      delayed_wakes_.wait(lock);
      continue;
    }
    const Instant next = delayed_.begin()->first;
    if (const Instant at = now(); next > at) {
      delayed_wakes_.wait_for(lock, span_of(next - at));
      continue;
    }
    const Delayed due = delayed_.begin()->second;
    delayed_.erase(delayed_.begin());
    add(*due.queue, *due.task);
  }
}

bool ThreadedEnvironment::wait_until(const std::function<bool()>& condition, Instant deadline) {
  for (;;) {
    std::uint64_t epoch = 0;
    {
      const std::lock_guard lock{wait_mutex_};
      epoch = epoch_;
    }
    if (condition()) {
      return true;
    }
    std::unique_lock lock{wait_mutex_};
    const auto has_changed = [&] { return epoch_ != epoch; };
    if (deadline == Instant::never()) {
      wait_wakes_.wait(lock, has_changed);
      continue;
    }
    const Duration left = deadline - now();
    if (left <= Duration{} || !wait_wakes_.wait_for(lock, span_of(left), has_changed)) {
      lock.unlock();
      return condition();
    }
  }
}

void ThreadedEnvironment::notify() {
  {
    const std::lock_guard lock{wait_mutex_};
    ++epoch_;
  }
  wait_wakes_.notify_all();
}

}  // namespace weft::verbs_driver
