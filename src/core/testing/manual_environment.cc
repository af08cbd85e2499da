#include "core/testing/manual_environment.h"

#include <algorithm>

#include "base/assert.h"

namespace weft::core::testing {

ManualEnvironment::~ManualEnvironment() {
  WEFT_ASSERT(posted_.empty(), "whoever posts a task revokes it or lets it run");
}

void ManualEnvironment::post(Task& task, WorkContext context, unsigned vector, Duration delay) {
  WEFT_ASSERT(std::ranges::find(posted_, &task, &Posted::task) == posted_.end(),
              "a task is posted once at a time");
  const Posted posted{.task = &task, .context = context, .vector = vector, .at = now_ + delay};
  posted_.insert(std::ranges::upper_bound(posted_, posted.at, {}, &Posted::at), posted);
}

bool ManualEnvironment::revoke(Task& task) {
  return std::erase_if(posted_, [&](const Posted& posted) { return posted.task == &task; }) != 0;
}

bool ManualEnvironment::run_one() {
  if (posted_.empty() || posted_.front().at > now_) {
    return false;
  }
  Task& task = *posted_.front().task;
  posted_.erase(posted_.begin());
  task.run();
  return true;
}

void ManualEnvironment::run_all(unsigned most) {
  while (run_one()) {
    WEFT_ASSERT(most-- != 0, "tasks come to an end");
  }
}

bool ManualEnvironment::step(Instant until) {
  if (run_one() || (world && world())) {
    return true;
  }
  if (posted_.empty() || posted_.front().at > until) {
    return false;
  }
  now_ = posted_.front().at;
  return true;
}

void ManualEnvironment::advance(Duration span) {
  const Instant end = now_ + span;
  while (step(end)) {
  }
  now_ = end;
}

bool ManualEnvironment::wait_until(const std::function<bool()>& condition, Instant deadline) {
  while (!condition()) {
    if (!step(deadline)) {
      WEFT_ASSERT(deadline != Instant::never(), "nobody is left who could end this wait");
      now_ = std::max(now_, deadline);
      return condition();
    }
  }
  return true;
}

void ManualEnvironment::log(LogLevel level, std::string_view text) {
  lines.push_back({.level = level, .text = std::string{text}});
}

std::size_t ManualEnvironment::logged(std::string_view text) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      lines, [&](const Line& line) { return line.text.find(text) != std::string::npos; }));
}

}  // namespace weft::core::testing
