#include "host/control_handler.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/live_bug.h"
#include "host/object_listing.h"
#include "os/clock.h"
#include "os/shared_memory.h"

namespace weft::host {
namespace {

template <class... Handlers>
struct Overloaded : Handlers... {
  using Handlers::operator()...;
};

}  // namespace

void ControlHandler::handle_lane(const uabi::Lane& message,
                                 std::vector<os::UniqueFd>& descriptors) {
  const bool is_joined = parts_.lanes.join(message, descriptors, [this](Lane& lane) {
    lane.announce_sleep(ring::Sleep::Sound);
    // For what the peer sent before this was mapped, it rang no doorbell here.
    if (lane.has_record() && !planted(LiveBug::NewLaneNotPolled)) {
      parts_.progress.sleeper.watch(lane.number);
    }
  });
  if (is_joined) {
    parts_.sender.resume_waiting();
    wake_thread();
  }
}

void ControlHandler::close_lane(Lane& lane) {
  const std::scoped_lock owners{lane.in(hca::Flow::Request).owner,
                                lane.in(hca::Flow::Response).owner};
  if (lane.state() == LaneState::Open && !planted(LiveBug::DeadLaneNotDrained)) {
    parts_.receiver.drain_all(lane);  // what the peer sent before it went away counts
  }
  parts_.progress.sleeper.forget(lane.number);
  lane.close(parts_.lanes.null_lane());
}

/// The peer is gone, or the daemon that joined us with it.
void ControlHandler::close_lanes_to(uabi::ProcessAddress peer) {
  parts_.lanes.part(peer, [this](Lane& lane) { close_lane(lane); });
}

void ControlHandler::handle_peer_gone(uabi::ProcessAddress peer) {
  close_lanes_to(peer);
  parts_.sender.resume_waiting();
  wake_thread();
}

void ControlHandler::handle_tables(const os::UniqueFd& file) {
  auto image = os::map_published(file, kMaxTablesBytes);
  if (image && parts_.map.replace(std::move(*image))) {
    parts_.ports.refresh();
    parts_.objects.rebind_all();
    parts_.sender.resume_waiting();
  }
}

void ControlHandler::handle_tap(const uabi::OpenTap& tap, const os::UniqueFd& file) {
  constexpr std::size_t kBytes = ring::ring_bytes(kTapRingCapacity);
  auto memory = os::map_shared(file, os::Protection::ReadWrite, kBytes, kBytes);
  if (memory) {
    parts_.taps.open(tap.capture, tap.port, std::move(*memory));
    parts_.daemon.post(uabi::TapReady{.capture = tap.capture});
  }
}

void ControlHandler::handle_tap_closed(const uabi::CloseTap& tap) {
  parts_.taps.close(tap.capture);
  parts_.sender.resume_waiting();
}

void ControlHandler::handle_daemon_gone() {
  const std::vector<uabi::ProcessAddress> peers = parts_.lanes.end();
  parts_.groups.handle_daemon_gone();
  for (const uabi::ProcessAddress& peer : peers) {
    close_lanes_to(peer);
  }
  parts_.xrc_domains.handle_daemon_gone();
  parts_.peer_targets.handle_daemon_gone();
  parts_.imports.handle_daemon_gone();
  parts_.objects.fail_all();
  parts_.sender.resume_waiting();
  wake_thread();
  for (std::uint32_t hca = 0; hca < parts_.hcas.count(); ++hca) {
    hca::AsyncEvent fatal;
    fatal.type = hca::AsyncEventType::DeviceFatal;
    parts_.program.async_event(hca, fatal);
  }
}

/// Packets that were dropped for their keys, on their way to the counters and traps of the daemon's
/// SMA.
Instant ControlHandler::report_due() {
  for (const KeyViolations::Report& report : parts_.key_violations.take(os::now())) {
    const hca::BadKey& bad = report.last;
    const auto port = parts_.map.ask([&](const fabric::TablesView& view) {
      return view.find_port(fabric::NodeIndex{parts_.daemon.self().node}, bad.port, report.hca);
    });
    if (port) {
      parts_.daemon.post(uabi::BadKeys{.port = port->value(),
                                       .is_qkey = bad.kind == hca::BadKey::Kind::QKey,
                                       .count = report.count,
                                       .source = bad.source,
                                       .destination = bad.destination,
                                       .sl = bad.sl.value(),
                                       .source_qp = bad.source_qp,
                                       .destination_qp = bad.destination_qp,
                                       .source_gid = bad.source_gid,
                                       .key = bad.key});
    }
  }
  return std::min(parts_.key_violations.due(), release_mapped());
}

/// A program that frees memory soon has it back, though a peer still maps it. Returns when to look
/// again.
Instant ControlHandler::release_mapped() {
  constexpr Duration kPeriod = Duration::seconds(1);  // policy
  if (!parts_.placements.has_mapped()) {
    return release_at_ = Instant::never();
  }
  const Instant now = os::now();
  if (release_at_ <= now) {
    parts_.placements.release_mapped();
    release_at_ = Instant::never();
  }
  if (release_at_ == Instant::never()) {
    release_at_ = now + kPeriod;
  }
  return release_at_;
}

// --- objects that several processes share

void ControlHandler::handle_shared_object(const uabi::Message& message) {
  message.visit(Overloaded{
      [&](const uabi::XrcDomainOpened& opened) { parts_.xrc_domains.handle(opened); },
      [&](const uabi::XrcRelay& relay) { handle_relay(relay); },
      [&](const uabi::XrcTargetRequest& request) { handle_target_request(request); },
      [&](const uabi::XrcTargetAnswer& answer) { parts_.peer_targets.handle(answer); },
      [&](const uabi::XrcTargetEvent& event) { parts_.peer_targets.handle(event); },
      [&](const uabi::DeviceImported& imported) { parts_.imports.handle(imported); },
      [&](const uabi::ObjectRequest& request) { parts_.imports.handle(request); },
      [&](const uabi::ObjectAnswer& answer) { parts_.imports.handle(answer); },
      [&](const uabi::DeviceGone& gone) { parts_.imports.handle(gone); },
      [&](const uabi::ListObjects& request) {
        list_objects(parts_.hcas, parts_.placements, parts_.daemon, request);
      },
      [](const auto&) {},
  });
}

void ControlHandler::handle_target_request(const uabi::XrcTargetRequest& request) {
  if (request.verb == uabi::TargetVerb::Close) {
    parts_.xrc_domains.remove_opener(request.peer, request.domain, request.target);
  } else {
    parts_.daemon.post(parts_.shared_targets.answer(request));
  }
}

void ControlHandler::handle_relay(const uabi::XrcRelay& message) {
  parts_.xrc_domains.handle(message);
  switch (message.action) {
    case uabi::XrcMessage::RequestProxy:
    case uabi::XrcMessage::ProxiesReleased:
      return;
    case uabi::XrcMessage::PeerGone:
      parts_.xrc_domains.remove_opener(message.peer, message.domain, std::nullopt);
      parts_.peer_targets.lose(message.peer, message.domain);
      break;
    case uabi::XrcMessage::Proxy:
    case uabi::XrcMessage::NoProxy:
      break;
  }
  notify_targets(message);
}

/// Passes on to target QPs the answer to a request for a proxy QP, or that a process is gone.
void ControlHandler::notify_targets(const uabi::XrcRelay& message) {
  if (message.peer.node != parts_.daemon.self().node) {
    return;
  }
  parts_.objects.for_each_qp_of(message.domain, [&](hca::Qp& qp) {
    if (message.action == uabi::XrcMessage::PeerGone) {
      qp.handle_owner_gone(message.peer.slot);
      return true;
    }
    if (qp.number() != message.target) {
      return false;
    }
    qp.handle_proxy(
        message.peer.slot, message.serial,
        message.action == uabi::XrcMessage::Proxy ? std::optional{message.proxy} : std::nullopt);
    return true;
  });
}

}  // namespace weft::host
