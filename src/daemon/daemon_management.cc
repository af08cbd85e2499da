// Runs the management plane in the daemon's event loop: MADs, timers, publication of tables.

#include <fmt/format.h>

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>
#include <cstdint>
#include <utility>

#include "daemon/daemon_impl.h"
#include "os/clock.h"

namespace weft::daemon {
namespace {

/// Policy: a subnet manager writes many entries one after another, which are published together.
/// Publishing the tables of a large fabric takes long, so it is limited to a share of the time.
constexpr Duration kPublishDelay = Duration::milliseconds(5);
constexpr std::int64_t kPublishPause = 9;  // pause, as a multiple of the duration of publishing

}  // namespace

/// Runs the plane after a MAD was sent, and when one of its timers is due.
void Daemon::Impl::run_management() {
  const Instant began = os::now();
  const bool has_more = fabric_->run_management(began);
  flush_open_ports();
  serve_omni_path_programs();
  for (const Duration reroute : fabric_->take_reroutes()) {  // with this turn, whose time stands
    const Duration whole = reroute + (os::now() - began);
    log_.write(fmt::format("re-routed {:.3f} ms after the trap",
                           static_cast<double>(whole.nanoseconds()) / 1e6));
  }
  if (management().tables_changed()) {
    schedule_publication();
  }
  if (!has_more) {
    return wait_for_management();
  }
  post_management();  // lets other handlers run first
}

void Daemon::Impl::post_management() {
  if (std::exchange(management_is_posted_, true)) {
    return;
  }
  asio::post(loop_, [this] {
    management_is_posted_ = false;
    run_management();
  });
}

/// Runs the plane until the effect of the last request is in the tables, within a limit; a program
/// that joined a group may be sent to immediately afterwards. Link time is not applied to these
/// MADs.
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

void Daemon::Impl::schedule_publication() {
  if (publication_is_due_) {
    return;
  }
  publication_is_due_ = true;
  const Duration rested = os::now() - published_at_;
  const Duration wait = std::max(kPublishDelay, publishing_takes_ * kPublishPause - rested);
  publish_timer_.expires_after(std::chrono::nanoseconds{wait.nanoseconds()});
  publish_timer_.async_wait([this](const std::error_code& error) {
    publication_is_due_ = false;
    if (!error) {
      publish();
    }
  });
}

}  // namespace weft::daemon
