// What a process does about what its daemon says: lanes, tables, captures, groups, and the daemon's
// own end.

#include <mutex>
#include <utility>

#include "base/live_bug.h"
#include "host/process_impl.h"
#include "os/block_signals.h"
#include "os/clock.h"

namespace weft::host {

void Process::Impl::start_threads() {
  connection.start_daemon_events();
  const std::lock_guard guard{progress_thread_lock};
  if (!progress_thread.joinable()) {
    progress_thread = os::block_signals([this] { run_progress(); });
  }
}

void Process::Impl::stop_threads() {
  stopping.store(true);
  connection.stop();
  const std::lock_guard guard{progress_thread_lock};
  progress.sleeper.wake_now();
  if (progress_thread.joinable()) {
    progress_thread.join();
  }
}

void Process::Impl::handle_lane(const uabi::Lane& message, std::vector<os::UniqueFd>& descriptors) {
  const bool is_joined = lanes.join(message, descriptors, [this](Lane& lane) {
    lane.announce_sleep(ring::Sleep::Sound);
    // What the peer sent before this was mapped rang no doorbell here.
    if (lane.has_record() && !planted(LiveBug::NewLaneNotPolled)) {
      watch(lane);
    }
  });
  if (is_joined) {
    resume_waiting();
    wake_thread();
  }
}

void Process::Impl::close_lane(Lane& lane) {
  const std::scoped_lock owners{lane.in(hca::Flow::Request).owner,
                                lane.in(hca::Flow::Response).owner};
  if (lane.state() == LaneState::Open && !planted(LiveBug::DeadLaneNotDrained)) {
    // What it sent before it went away counts.
    while (drain(lane, hca::Flow::Response, false, false) +
               drain(lane, hca::Flow::Request, false, false) !=
           0) {
    }
  }
  progress.sleeper.forget(lane.number);
  lane.close(lanes.null_lane());
}

/// The peer is gone, or the daemon that joined us.
void Process::Impl::part(uabi::ProcessAddress peer) {
  lanes.part(peer, [this](Lane& lane) { close_lane(lane); });
}

void Process::Impl::handle_peer_gone(uabi::ProcessAddress peer) {
  part(peer);
  resume_waiting();
  wake_thread();
}

/// While it is quiesced no QP is being destroyed; one that is made or changed later asks itself
/// whether the daemon is gone.
void Process::Impl::fail_qps() {
  const QuiesceGuard quiesced{*this};
  qps.fail_all();
}

/// A record of that peer was refused: counts it, and tells the daemon now and then.
void Process::Impl::refuse(Lane& lane, uabi::RecordFault what) {
  if (const auto count = lane.refusals.count(what, os::now()); count && lane.peer != self) {
    connection.post(uabi::ReportPeer{.peer = lane.peer, .what = what, .count = *count});
  }
}

void Process::Impl::handle_daemon_gone() {
  const std::vector<uabi::ProcessAddress> peers = lanes.end();
  groups.handle_daemon_gone();
  for (const uabi::ProcessAddress& peer : peers) {
    part(peer);
  }
  xrc_domains.handle_daemon_gone();
  peer_targets.handle_daemon_gone();
  imports.handle_daemon_gone();
  fail_qps();
  resume_waiting();
  wake_thread();
  for (std::uint32_t i = 0; i < slots.size(); ++i) {
    hca::AsyncEvent fatal;
    fatal.type = hca::AsyncEventType::DeviceFatal;
    events.async_event(i, fatal);
  }
}

void Process::Impl::handle_tables(const os::UniqueFd& file) {
  auto image = os::map_published(file, kMaxTablesBytes);
  if (image && map.replace(std::move(*image))) {
    refresh_ports(true);
    bind_again();
    resume_waiting();
  }
}

void Process::Impl::handle_tap(const uabi::OpenTap& tap, const os::UniqueFd& file) {
  constexpr std::size_t kBytes = ring::ring_bytes(kTapRingCapacity);
  auto memory = os::map_shared(file, os::Protection::ReadWrite, kBytes, kBytes);
  if (memory) {
    taps.open(tap.capture, tap.port, std::move(*memory));
    connection.post(uabi::TapReady{.capture = tap.capture});
  }
}

void Process::Impl::handle_tap_closed(const uabi::CloseTap& tap) {
  taps.close(tap.capture);
  resume_waiting();
}

void Process::Impl::handle_group(const uabi::GroupMembers& group) { groups.handle(group); }

void Process::Impl::handle_group_joined() { groups.handle_joined(); }

}  // namespace weft::host
