#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "core/call_queue.h"
#include "core/environment.h"

namespace weft::verbs_driver {

/// The events of one id of RDMA-CM on their way to its handler: told later, one at a time and in
/// order, while those of other ids go on (R-CM-12, T-CM-13). It lives as long as whatever is told,
/// also where that ends the id. Any thread.
class IdEvents {
 public:
  using Tell = std::function<void()>;

  /// Of the id of a request nothing is told before announce().
  IdEvents(core::Environment& environment, bool is_request)
      : environment_(environment), waits_(is_request), calls_(environment) {}
  /// It is idle.
  ~IdEvents() = default;
  IdEvents(const IdEvents&) = delete;
  IdEvents& operator=(const IdEvents&) = delete;

  /// `tell` is called later, unless end() comes before.
  void add(Tell tell);

  /// Calls `tell`, by which the listener's handler hears of the request that this id is of; it is
  /// as if it were told of this id, too. What was added goes on when it has returned.
  void announce(const Tell& tell);

  /// From now on nothing is told; what is being told has returned, unless this is called by it.
  void end();

  /// Nothing is told, and nothing waits. That it has become so is notified.
  [[nodiscard]] bool is_idle() const { return calls_.is_idle() && !is_announced_; }

 private:
  class Telling;

  void run(const Tell& tell);

  core::Environment& environment_;
  std::atomic<bool> has_ended_{};
  std::atomic<bool> is_announced_{};  // just now
  std::mutex mutex_;                  // of what follows
  bool waits_;
  std::vector<Tell> waiting_;
  core::CallQueue calls_;
};

}  // namespace weft::verbs_driver
