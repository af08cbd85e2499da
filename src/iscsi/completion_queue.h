#pragma once

// Commands and task management functions that have ended, on whichever thread, on their way to the
// server's thread.

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>
#include <variant>
#include <vector>

#include "base/lock.h"
#include "iscsi/target_task.h"
#include "wire/iscsi/task_management.h"

namespace weft::iscsi {

/// A task management function, which its session may not survive.
struct ManagementEnd {
  std::uint16_t tsih{};
  std::uint16_t cid{};
  std::uint32_t tag{};
  wire::iscsi::TaskManagementOutcome outcome{};
  bool is_cold_reset{};
};
using Ended = std::variant<std::shared_ptr<TargetTask>, ManagementEnd>;

/// Any thread.
class CompletionQueue {
 public:
  CompletionQueue(LockPolicy locks, std::function<void()> wake)
      : lock_(locks), wake_(std::move(wake)) {}

  /// Wakes the server unless it is at work and will look by itself.
  void push(Ended ended) {
    bool wakes = false;
    {
      const std::lock_guard guard{lock_};
      ended_.push_back(std::move(ended));
      wakes = !server_looks_;
      server_looks_ = true;
    }
    if (wakes) {
      wake_();
    }
  }

  /// The server's thread: from now on it looks by itself, until take() returns nothing.
  void begin() {
    const std::lock_guard guard{lock_};
    server_looks_ = true;
  }
  /// Into a list that is empty, and whose room later ones get.
  void take(std::vector<Ended>& into) {
    const std::lock_guard guard{lock_};
    server_looks_ = !ended_.empty();
    std::swap(ended_, into);
  }

 private:
  PolicyLock lock_;  // guards all below but wake_
  std::vector<Ended> ended_;
  bool server_looks_{};
  std::function<void()> wake_;
};

}  // namespace weft::iscsi
