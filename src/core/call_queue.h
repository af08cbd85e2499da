#pragma once

#include <functional>
#include <vector>

#include "base/lock.h"
#include "core/work.h"

namespace weft::core {

/// Calls of one consumer's handler: made later, one at a time and in order, while those of other
/// consumers go on, so that a handler that blocks holds up nobody else (R-CM-12, T-CM-13). Any
/// thread.
class CallQueue {
 public:
  explicit CallQueue(Environment& environment)
      : lock_(environment.lock_policy()),
        work_(environment, WorkContext::UnboundWorkQueue, 0, [this] { run(); }) {}
  /// It is idle.
  ~CallQueue() = default;
  CallQueue(const CallQueue&) = delete;
  CallQueue& operator=(const CallQueue&) = delete;

  void add(std::function<void()> call);

  /// After it no call is under way, and those that waited are dropped without having been made. Not
  /// from inside a call; nobody adds one meanwhile.
  void cancel_and_wait();

  /// No call waits or is under way. That it has become so is notified.
  [[nodiscard]] bool is_idle() const { return work_.is_idle(); }

 private:
  void run();

  PolicyLock lock_;
  std::vector<std::function<void()>> calls_;  // under it
  Work work_;
};

}  // namespace weft::core
