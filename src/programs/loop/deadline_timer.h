#pragma once

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <functional>
#include <memory>

#include "base/time.h"

namespace weft::programs {

/// Tells when a deadline has come that is set anew after every event, as that of a protocol's
/// engine is. One that is later than before costs no system call: the timer goes off when the
/// earlier one would have come, and looks again. The loop's thread.
class DeadlineTimer {
 public:
  /// `expire` sets the next deadline, if there is one. The loop outlives the timer.
  DeadlineTimer(asio::io_context& loop, std::function<void()> expire);
  DeadlineTimer(const DeadlineTimer&) = delete;
  DeadlineTimer& operator=(const DeadlineTimer&) = delete;

  /// In the place of the one before. Instant::never(): nothing is told.
  void set(Instant deadline);

 private:
  void arm(Instant at);
  void look();

  asio::steady_timer timer_;
  const std::function<void()> expire_;
  Instant deadline_{Instant::never()};
  Instant armed_for_{Instant::never()};
  const std::shared_ptr<char> alive_ = std::make_shared<char>();  // for what the loop runs late
};

}  // namespace weft::programs
