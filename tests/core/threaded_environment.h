#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "verbs_driver/threaded_environment.h"

namespace weft::core::testing {

/// The live environment with a world in a thread of its own, whose log is read.
class ThreadedEnvironment : public verbs_driver::ThreadedEnvironment {
 public:
  explicit ThreadedEnvironment(unsigned processors = 2)
      : verbs_driver::ThreadedEnvironment(
            [this](LogLevel /*level*/, std::string_view text) { keep(text); }, processors) {}
  ~ThreadedEnvironment() override {
    stop_world();
    join();
  }

  /// Runs `work` in a thread of its own again and again until it is told to stop; `work` says
  /// whether it did something. It sleeps for a moment where it did not.
  void run_world(std::function<bool()> work);
  void stop_world();

  [[nodiscard]] std::vector<std::string> lines();

 private:
  void keep(std::string_view text);

  std::mutex log_mutex_;
  std::vector<std::string> lines_;
  std::atomic<bool> world_stops_{};
  std::thread world_;
};

}  // namespace weft::core::testing
