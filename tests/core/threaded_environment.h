#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "core/environment.h"

namespace weft::core::testing {

/// An environment of real threads and the real clock: for each vector one thread of soft interrupts
/// and one of the work queue, a few threads for all else, and one for what has a delay.
class ThreadedEnvironment final : public Environment {
 public:
  explicit ThreadedEnvironment(unsigned processors = 2);
  ~ThreadedEnvironment() override;

  [[nodiscard]] LockPolicy lock_policy() const override { return LockPolicy::Spin; }
  [[nodiscard]] unsigned processor_count() const override { return processors_; }
  [[nodiscard]] Instant now() const override;
  void post(Task& task, WorkContext context, unsigned vector, Duration delay) override;
  bool revoke(Task& task) override;
  bool wait_until(const std::function<bool()>& condition, Instant deadline) override;
  void notify() override;
  void log(LogLevel level, std::string_view text) override;

  /// Runs `work` in a thread of its own again and again until it is told to stop; `work` says
  /// whether it did something. It sleeps for a moment where it did not.
  void run_world(std::function<bool()> work);
  void stop_world();

  [[nodiscard]] std::vector<std::string> lines();

 private:
  struct Queue {
    std::deque<Task*> tasks;
    std::condition_variable wakes;
  };
  [[nodiscard]] Queue& queue_of(WorkContext context, unsigned vector);
  void serve(Queue& queue);
  void serve_delays();

  const unsigned processors_;
  std::mutex mutex_;  // of the queues
  bool stops_{};
  std::array<std::vector<std::unique_ptr<Queue>>, 2> bound_;  // by context
  Queue unbound_;
  struct Delayed {
    Task* task{};
    Queue* queue{};
  };
  std::multimap<Instant, Delayed> delayed_;
  std::condition_variable delayed_wakes_;
  std::mutex wait_mutex_;
  std::condition_variable wait_wakes_;
  std::uint64_t epoch_{};
  std::mutex log_mutex_;
  std::vector<std::string> lines_;
  std::atomic<bool> world_stops_{};
  std::thread world_;
  std::vector<std::thread> threads_;
};

}  // namespace weft::core::testing
