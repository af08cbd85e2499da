// The management plane in the daemon's loop: MADs move, timers run, new tables are published.

#include <fmt/format.h>

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>
#include <cstdint>

#include "daemon/daemon_impl.h"
#include "os/clock.h"

namespace weft::daemon {
namespace {

/// Policy: a subnet manager writes many entries one after the other; programs get them together.
/// The tables of a large fabric take their time, of which the manager has the most.
constexpr Duration kPublishDelay = Duration::milliseconds(5);
constexpr std::int64_t kPublishPause = 9;  // times what publishing takes

}  // namespace

/// After anybody sent a MAD, and when a timer of the plane is due.
void Daemon::Impl::run_management() {
  const Instant began = os::now();
  const bool has_more = fabric_->run_management(began);
  flush_open_ports();
  for (const Duration reroute : fabric_->take_reroutes()) {  // with this turn, whose time stands
    const Duration whole = reroute + (os::now() - began);
    log_.write(fmt::format("re-routed {:.3f} ms after the trap",
                           static_cast<double>(whole.nanoseconds()) / 1e6));
  }
  if (management().tables_changed()) {
    publish_soon();
  }
  if (!has_more) {
    return wait_for_management();
  }
  if (!management_is_posted_) {  // others have their turn first
    management_is_posted_ = true;
    asio::post(loop_, [this] {
      management_is_posted_ = false;
      run_management();
    });
  }
}

/// What was just asked for is in the tables when this returns, unless that takes many MADs: a
/// program that has joined a group may be sent to at once. Links take no time of these MADs.
void Daemon::Impl::settle_management() {
  constexpr int kTurns = 16;  // policy
  management().set_takes_time(false);
  for (int turn = 0; turn < kTurns && fabric_->run_management(os::now()); ++turn) {
  }
  management().set_takes_time(true);
  publish();
  run_management();
}

void Daemon::Impl::wait_for_management() {
  const Instant deadline = fabric_->management_deadline();
  if (deadline == Instant::never()) {
    management_timer_.cancel();
    return;
  }
  const Duration wait = std::max(deadline - os::now(), Duration{});
  management_timer_.expires_after(std::chrono::nanoseconds{wait.nanoseconds()});
  management_timer_.async_wait([this](const std::error_code& error) {
    if (!error) {
      run_management();
    }
  });
}

void Daemon::Impl::publish_soon() {
  if (publish_is_due_) {
    return;
  }
  publish_is_due_ = true;
  const Duration rested = os::now() - published_at_;
  const Duration wait = std::max(kPublishDelay, publishing_takes_ * kPublishPause - rested);
  publish_timer_.expires_after(std::chrono::nanoseconds{wait.nanoseconds()});
  publish_timer_.async_wait([this](const std::error_code& error) {
    publish_is_due_ = false;
    if (!error) {
      publish();
    }
  });
}

}  // namespace weft::daemon
