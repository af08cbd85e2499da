#include "host/hca_event_relay.h"

#include "host/lane.h"
#include "os/clock.h"

namespace weft::host {
namespace {

/// With the QP's peer; null without one.
[[nodiscard]] PeerPlacement* placement_of(const hca::Qp& qp) {
  const auto* const qp_state = static_cast<const QpDriverState*>(qp.driver_data);
  const Lane* const lane =
      qp_state != nullptr ? qp_state->lane.load(std::memory_order_acquire) : nullptr;
  return lane != nullptr ? lane->placement : nullptr;
}

}  // namespace

std::optional<std::uint64_t> HcaEventRelay::placement_epoch(hca::Qp& qp) {
  PeerPlacement* const peer = placement_of(qp);
  return peer != nullptr && peer->take_wish() ? parts_.placements.epoch(*peer) : std::nullopt;
}

void HcaEventRelay::grant_placement(hca::Qp& qp, std::uint64_t epoch,
                                    const hca::PlaceableMemory& memory) {
  if (PeerPlacement* const peer = placement_of(qp)) {
    parts_.placements.grant(*peer, epoch, parts_.map.generation(), qp.number(), memory);
  }
}

void HcaEventRelay::completion_event_held(hca::CompletionQueue& cq, Duration period) {
  parts_.held_events.hold(*static_cast<CqDriverState*>(cq.driver_data), os::now() + period);
}

/// The daemon's connection manager takes the first packet for the RTU that it overtook (R-RVT-16).
/// Other processes may have handles of a target QP.
void HcaEventRelay::async_event(const hca::AsyncEvent& event) {
  if (event.type == hca::AsyncEventType::CommunicationEstablished) {
    parts_.daemon.post(uabi::CommunicationEstablished{.qpn = event.qp->number()});
  }
  if (event.qp != nullptr && event.qp->type() == hca::QpType::XrcTarget) {
    parts_.shared_targets.notify_openers(event);
  }
  parts_.program.async_event(hca_, event);
}

void HcaEventRelay::bad_key(const hca::BadKey& bad) {
  if (parts_.key_violations.note(hca_, bad)) {
    parts_.daemon.wake();
  }
}

void HcaEventRelay::xrc_proxy_requested(const hca::XrcProxyRequest& request) {
  parts_.daemon.post(uabi::XrcRelay{
      .peer = {.node = parts_.daemon.self().node, .slot = request.slot},
      .domain = request.domain,
      .action = uabi::XrcMessage::RequestProxy,
      .serial = request.serial,
      .target = request.of.target,
      .proxy = {},
      .is_for_reads = request.is_for_reads,
      .source = request.of.source,
      .slid = request.of.slid,
      .sl = request.of.sl,
      .port = request.port,
      .pkey_index = request.pkey_index,
      .path_mtu = request.path_mtu,
      .min_rnr_timer = request.min_rnr_timer
  });
}

void HcaEventRelay::xrc_proxies_released(std::uint32_t domain, Qpn target) {
  uabi::XrcRelay message;
  message.domain = domain;
  message.action = uabi::XrcMessage::ProxiesReleased;
  message.target = target;
  parts_.daemon.post(message);
}

}  // namespace weft::host
