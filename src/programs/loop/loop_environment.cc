#include "programs/loop/loop_environment.h"

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>
#include <system_error>
#include <utility>

#include "base/assert.h"
#include "os/clock.h"

namespace weft::programs {
namespace {

// Policy: how late a change is seen that nobody was told of.
constexpr Duration kLongestWait = Duration::milliseconds(100);

[[nodiscard]] std::chrono::nanoseconds span_of(Duration duration) {
  return std::chrono::nanoseconds{std::max<std::int64_t>(duration.nanoseconds(), 0)};
}

}  // namespace

LoopEnvironment::LoopEnvironment(asio::io_context& loop, Log log)
    : loop_(loop), log_(std::move(log)), thread_(std::this_thread::get_id()), timer_(loop) {}

LoopEnvironment::~LoopEnvironment() {
  WEFT_ASSERT(tasks_.empty() && delayed_.empty(), "whoever posted tasks took them back");
}

Instant LoopEnvironment::now() const { return os::now(); }

void LoopEnvironment::post(core::Task& task, core::WorkContext /*context*/, unsigned /*vector*/,
                           Duration delay) {
  const std::lock_guard lock{mutex_};
  if (delay > Duration{}) {
    delayed_.emplace(now() + delay, &task);
    post_to_loop(&LoopEnvironment::await_delayed);
  } else {
    tasks_.push_back(&task);
    post_to_loop(&LoopEnvironment::run_one);
  }
}

void LoopEnvironment::post_to_loop(void (LoopEnvironment::*function)()) {
  asio::post(loop_, [this, function, alive = std::weak_ptr{alive_}] {
    if (!alive.expired()) {
      (this->*function)();
    }
  });
}

bool LoopEnvironment::revoke(core::Task& task) {
  const std::lock_guard lock{mutex_};
  return std::erase(tasks_, &task) != 0 ||
         std::erase_if(delayed_, [&](const auto& one) { return one.second == &task; }) != 0;
}

void LoopEnvironment::run_one() {
  core::Task* task = nullptr;
  {
    const std::lock_guard lock{mutex_};
    if (tasks_.empty()) {
      return;  // it was taken back
    }
    task = tasks_.front();
    tasks_.pop_front();
  }
  task->run();
}

void LoopEnvironment::await_delayed() {
  const std::lock_guard lock{mutex_};
  while (!delayed_.empty() && delayed_.begin()->first <= now()) {
    tasks_.push_back(delayed_.begin()->second);
    delayed_.erase(delayed_.begin());
    post_to_loop(&LoopEnvironment::run_one);
  }
  if (!delayed_.empty()) {
    timer_.expires_after(span_of(delayed_.begin()->first - now()));
    timer_.async_wait([this, alive = std::weak_ptr{alive_}](const std::error_code& error) {
      if (!error && !alive.expired()) {
        await_delayed();
      }
    });
  }
}

bool LoopEnvironment::wait_until(const std::function<bool()>& condition, Instant deadline) {
  if (std::this_thread::get_id() == thread_) {
    return wait_in_loop(condition, deadline);
  }
  for (;;) {
    std::uint64_t epoch = 0;
    {
      const std::lock_guard lock{wait_mutex_};
      epoch = epoch_;
    }
    if (condition()) {
      return true;
    }
    const Duration left = deadline == Instant::never() ? kLongestWait : deadline - now();
    if (left <= Duration{}) {
      return false;
    }
    std::unique_lock lock{wait_mutex_};
    wait_wakes_.wait_for(lock, span_of(std::min(left, kLongestWait)),
                         [&] { return epoch_ != epoch; });
  }
}

bool LoopEnvironment::wait_in_loop(const std::function<bool()>& condition, Instant deadline) {
  bool was_stopped = false;
  bool holds = condition();
  while (!holds && (deadline == Instant::never() || now() < deadline)) {
    if (loop_.stopped()) {  // by one of the handlers, or because nothing is left to do
      was_stopped = true;
      loop_.restart();
    }
    const Duration left = deadline == Instant::never() ? kLongestWait : deadline - now();
    // A loop without work returns at once: what is waited for comes from another thread.
    const auto work = asio::make_work_guard(loop_);
    loop_.run_one_for(span_of(std::min(left, kLongestWait)));
    holds = condition();
  }
  if (was_stopped) {
    loop_.stop();  // whoever runs the loop was to end
  }
  return holds;
}

void LoopEnvironment::notify() {
  {
    const std::lock_guard lock{wait_mutex_};
    ++epoch_;
  }
  wait_wakes_.notify_all();
  if (std::this_thread::get_id() != thread_) {
    asio::post(loop_, [] {});  // who waits in the loop looks again
  }
}

}  // namespace weft::programs
