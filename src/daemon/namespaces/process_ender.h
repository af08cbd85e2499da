#pragma once

// Ends processes that a fabric's end takes with it: SIGTERM, and SIGKILL for those that are still
// there after a while. Others may come meanwhile, so it looks again until there are none, within
// bounds of time.

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "os/namespace_fd.h"

namespace weft::daemon {

/// Used on the loop's thread only; the loop must not run any longer when it is destroyed.
class ProcessEnder {
 public:
  using Finder = std::function<std::vector<os::RunningProcess>()>;
  struct Ended {
    std::size_t asked{};   ///< by SIGTERM
    std::size_t killed{};  ///< by SIGKILL
    std::size_t left{};    ///< that even SIGKILL has not ended in time
  };
  using Done = std::function<void(const Ended&)>;

  /// In words, as "2 processes on its hosts were ended, 1 of them by SIGKILL".
  [[nodiscard]] static std::string describe(const Ended& ended);

  explicit ProcessEnder(asio::io_context& loop) : loop_(loop) {}

  /// Ends all that `find` finds. Calls `done` when there are none, at once if there were none; at
  /// the latest after kWaitLimit and kKillWaitLimit.
  void end(Finder find, Done done);

 private:
  struct Task;
  static void poll(const std::shared_ptr<Task>& task);

  asio::io_context& loop_;
};

}  // namespace weft::daemon
