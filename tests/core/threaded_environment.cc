#include "threaded_environment.h"

#include <chrono>
#include <utility>

namespace weft::core::testing {

void ThreadedEnvironment::keep(std::string_view text) {
  const std::lock_guard lock{log_mutex_};
  lines_.emplace_back(text);
}

std::vector<std::string> ThreadedEnvironment::lines() {
  const std::lock_guard lock{log_mutex_};
  return lines_;
}

void ThreadedEnvironment::run_world(std::function<bool()> work) {
  world_stops_ = false;
  world_ = std::thread{[this, step = std::move(work)] {
    while (!world_stops_) {
      if (!step()) {
        std::this_thread::sleep_for(std::chrono::microseconds{20});
      }
    }
  }};
}

void ThreadedEnvironment::stop_world() {
  world_stops_ = true;
  if (world_.joinable()) {
    world_.join();
  }
}

}  // namespace weft::core::testing
