#include "programs/loop/deadline_timer.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "os/clock.h"

namespace weft::programs {

DeadlineTimer::DeadlineTimer(asio::io_context& loop, std::function<void()> expire)
    : timer_(loop), expire_(std::move(expire)) {}

void DeadlineTimer::set(Instant deadline) {
  deadline_ = deadline;
  if (deadline < armed_for_) {
    arm(deadline);
  }
}

void DeadlineTimer::arm(Instant at) {
  armed_for_ = at;
  const Duration left = at - os::now();
  timer_.expires_after(std::chrono::nanoseconds{std::max<std::int64_t>(left.nanoseconds(), 0)});
  timer_.async_wait([this, at, alive = std::weak_ptr{alive_}](const std::error_code& error) {
    // Another may be armed since this one was already on its way.
    if (!error && !alive.expired() && armed_for_ == at) {
      look();
    }
  });
}

void DeadlineTimer::look() {
  armed_for_ = Instant::never();
  if (deadline_ == Instant::never()) {
    return;
  }
  if (os::now() < deadline_) {
    arm(deadline_);
    return;
  }
  deadline_ = Instant::never();
  expire_();
}

}  // namespace weft::programs
