#include "verbs_driver/id_events.h"

#include <utility>

namespace weft::verbs_driver {

/// What this thread tells, inside of what it told when that waits: who ends one of these ids waits
/// for itself otherwise.
class IdEvents::Telling {
 public:
  explicit Telling(const IdEvents& of) : of_(of), outer_(std::exchange(innermost, this)) {}
  ~Telling() { innermost = outer_; }
  Telling(const Telling&) = delete;
  Telling& operator=(const Telling&) = delete;

  [[nodiscard]] static bool is_here(const IdEvents& events) {
    const Telling* one = innermost;
    while (one != nullptr && &one->of_ != &events) {
      one = one->outer_;
    }
    return one != nullptr;
  }

 private:
  static thread_local const Telling* innermost;

  const IdEvents& of_;
  const Telling* outer_;
};

thread_local const IdEvents::Telling* IdEvents::Telling::innermost = nullptr;

void IdEvents::add(Tell tell) {
  const std::lock_guard lock{mutex_};
  if (has_ended_) {
    return;
  }
  if (waits_) {
    waiting_.push_back(std::move(tell));
  } else {
    calls_.add([this, tell = std::move(tell)] { run(tell); });
  }
}

void IdEvents::run(const Tell& tell) {
  if (!has_ended_) {
    const Telling here{*this};
    tell();
  }
}

void IdEvents::announce(const Tell& tell) {
  is_announced_ = true;
  {
    const Telling here{*this};
    tell();
  }
  {
    const std::lock_guard lock{mutex_};
    waits_ = false;
    for (Tell& one : std::exchange(waiting_, {})) {
      calls_.add([this, tell = std::move(one)] { run(tell); });
    }
    is_announced_ = false;
  }
  environment_.notify();
}

void IdEvents::end() {
  std::vector<Tell> dropped;
  {
    const std::lock_guard lock{mutex_};
    has_ended_ = true;
    dropped.swap(waiting_);
  }
  if (Telling::is_here(*this)) {
    return;
  }
  environment_.wait_until([this] { return !is_announced_; }, Instant::never());
  calls_.cancel_and_wait();
}

}  // namespace weft::verbs_driver
