#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <thread>

#include "core/environment.h"

namespace weft::programs {

/// An environment whose tasks all run in the one thread of an Asio loop, that of whoever makes it:
/// for protocols that are of one thread, beside what else the loop serves. Who waits in that thread
/// lets the loop go on meanwhile. Devices and other threads post to it as they like.
class LoopEnvironment final : public core::Environment {
 public:
  using Log = std::function<void(core::LogLevel, std::string_view)>;
  /// The loop outlives it, and may go on after it.
  LoopEnvironment(asio::io_context& loop, Log log);
  /// In the loop's thread; nothing is posted any more.
  ~LoopEnvironment() override;
  LoopEnvironment(const LoopEnvironment&) = delete;
  LoopEnvironment& operator=(const LoopEnvironment&) = delete;

  [[nodiscard]] LockPolicy lock_policy() const override { return LockPolicy::Spin; }
  [[nodiscard]] unsigned processor_count() const override { return 1; }
  [[nodiscard]] Instant now() const override;
  void post(core::Task& task, core::WorkContext context, unsigned vector, Duration delay) override;
  bool revoke(core::Task& task) override;
  bool wait_until(const std::function<bool()>& condition, Instant deadline) override;
  void notify() override;
  void log(core::LogLevel level, std::string_view text) override { log_(level, text); }

 private:
  void post_to_loop(void (LoopEnvironment::*function)());
  void run_one();
  void await_delayed();
  [[nodiscard]] bool wait_in_loop(const std::function<bool()>& condition, Instant deadline);

  asio::io_context& loop_;
  const Log log_;
  const std::thread::id thread_;
  asio::steady_timer timer_;  // the loop's thread
  std::mutex mutex_;          // of the tasks
  std::deque<core::Task*> tasks_;
  std::multimap<Instant, core::Task*> delayed_;
  std::mutex wait_mutex_;  // of the epoch, for other threads that wait
  std::condition_variable wait_wakes_;
  std::uint64_t epoch_{};
  const std::shared_ptr<char> alive_ = std::make_shared<char>();  // for what the loop runs late
};

}  // namespace weft::programs
