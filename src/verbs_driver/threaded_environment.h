#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>
#include <vector>

#include "core/environment.h"

namespace weft::verbs_driver {

/// An environment of real threads and the real clock: for each vector one thread of soft interrupts
/// and one of the work queue, a few threads for all else, of which there are more while all of them
/// sleep in what they run, and one for what has a delay. What is logged goes to `log`, from any
/// thread.
class ThreadedEnvironment : public core::Environment {
 public:
  using Log = std::function<void(core::LogLevel, std::string_view)>;
  explicit ThreadedEnvironment(Log log, unsigned processors = 2);
  ~ThreadedEnvironment() override;
  ThreadedEnvironment(const ThreadedEnvironment&) = delete;
  ThreadedEnvironment& operator=(const ThreadedEnvironment&) = delete;

  [[nodiscard]] LockPolicy lock_policy() const override { return LockPolicy::Spin; }
  [[nodiscard]] unsigned processor_count() const override { return processors_; }
  [[nodiscard]] Instant now() const override;
  void post(core::Task& task, core::WorkContext context, unsigned vector, Duration delay) override;
  bool revoke(core::Task& task) override;
  bool wait_until(const std::function<bool()>& condition, Instant deadline) override;
  void notify() override;
  void log(core::LogLevel level, std::string_view text) override { log_(level, text); }

 protected:
  /// Runs what is posted and due, and ends the threads: for the destructor of a class that derives
  /// from this one, of which tasks may call functions until then. Repeated, it does nothing.
  void join();

 private:
  struct Queue {
    std::deque<core::Task*> tasks;
    std::condition_variable wakes;
    std::size_t idle{};  // threads that wait for a task
  };
  [[nodiscard]] Queue& queue_of(core::WorkContext context, unsigned vector);
  void add(Queue& queue, core::Task& task);  // with mutex_
  void serve(Queue& queue);
  void serve_delays();

  const Log log_;
  const unsigned processors_;
  std::mutex mutex_;  // of the queues
  bool stops_{};
  std::array<std::vector<std::unique_ptr<Queue>>, 2> bound_;  // by context
  Queue unbound_;
  unsigned unbound_threads_{};
  struct Delayed {
    core::Task* task{};
    Queue* queue{};
  };
  std::multimap<Instant, Delayed> delayed_;
  std::condition_variable delayed_wakes_;
  std::mutex wait_mutex_;
  std::condition_variable wait_wakes_;
  std::uint64_t epoch_{};
  std::vector<std::thread> threads_;
};

}  // namespace weft::verbs_driver
