#include "programs/iser/live_cm_id.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "programs/iscsi/transport.h"

namespace weft::programs::iser {
namespace {

using weft::iser::CmEvent;

[[nodiscard]] std::optional<CmEvent> event_of(verbs::RdmaCmEventType type) {
  using enum verbs::RdmaCmEventType;
  switch (type) {
    case AddressResolved:
      return CmEvent::AddressResolved;
    case AddressError:
      return CmEvent::AddressError;
    case RouteResolved:
      return CmEvent::RouteResolved;
    case RouteError:
      return CmEvent::RouteError;
    case ConnectError:
      return CmEvent::ConnectError;
    case Unreachable:
      return CmEvent::Unreachable;
    case Rejected:
      return CmEvent::Rejected;
    case Established:
      return CmEvent::Established;
    case Disconnected:
      return CmEvent::Disconnected;
    case DeviceRemoval:
      return CmEvent::DeviceRemoval;
    case AddressChange:
      return CmEvent::AddressChange;
    case TimewaitExit:
      return CmEvent::TimewaitExit;
    default:
      return {};  // of listeners, of multicast and of librdmacm itself
  }
}

}  // namespace

LiveCmId::LiveCmId(core::Environment& environment, weft::iser::CmHandler& handler)
    : handler_(handler),
      work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { tell(); }) {}

Result<std::unique_ptr<LiveCmId>> LiveCmId::create(core::Environment& environment, core::RdmaCm& cm,
                                                   weft::iser::CmHandler& handler) {
  std::unique_ptr<LiveCmId> made{
      new LiveCmId{environment, handler}
  };
  auto id = cm.create_id(*made);
  if (!id) {
    return std::unexpected(id.error());
  }
  made->id_ = *std::move(id);
  return made;
}

LiveCmId::LiveCmId(core::Environment& environment, std::unique_ptr<core::RdmaCmId> request,
                   const verbs::ConnectionParameters& offered, weft::iser::CmHandler& handler)
    : LiveCmId(environment, handler) {
  id_ = std::move(request);
  most_resources_ = offered.responder_resources;
  most_depth_ = offered.initiator_depth;
  id_->set_handler(*this);
}

LiveCmId::~LiveCmId() {
  id_.reset();  // no event comes any more
  work_.cancel_and_wait();
}

Result<void> LiveCmId::resolve_address(std::string_view address, Duration timeout) {
  const auto parsed = iscsi::parse_host_and_port(std::string{address});
  if (!parsed) {
    return std::unexpected(parsed.error());
  }
  const auto ip = parse_ip_address(parsed->host);
  if (!ip) {
    return std::unexpected(ip.error());
  }
  return id_->resolve_address({.address = *ip, .port = parsed->port}, timeout);
}

Result<void> LiveCmId::resolve_route(Duration timeout) { return id_->resolve_route(timeout); }

Result<void> LiveCmId::connect(const verbs::ConnectionParameters& parameters) {
  return id_->connect(parameters);
}

Result<void> LiveCmId::accept(const verbs::ConnectionParameters& parameters) {
  // No more than the peer's REQ allows (IBTA vol 1 §12.7.28, §12.7.29).
  verbs::ConnectionParameters agreed = parameters;
  agreed.responder_resources = std::min(agreed.responder_resources, most_resources_);
  agreed.initiator_depth = std::min(agreed.initiator_depth, most_depth_);
  return id_->accept(agreed);
}

void LiveCmId::disconnect() {
  static_cast<void>(id_->disconnect());  // refused: there is no connection
}

void LiveCmId::handle_cm_event(core::RdmaCmId& /*id*/, const core::RdmaCmEvent& event,
                               std::unique_ptr<core::RdmaCmId> /*request*/) {
  const auto told = event_of(event.type);
  if (!told) {
    return;
  }
  {
    const std::lock_guard lock{mutex_};
    events_.push_back({.event = *told, .private_data = event.parameters.private_data});
  }
  work_.queue();
}

void LiveCmId::tell() {
  for (;;) {
    Event event;
    {
      const std::lock_guard lock{mutex_};
      if (events_.empty()) {
        return;
      }
      event = std::move(events_.front());
      events_.pop_front();
    }
    handler_.handle_cm({.event = event.event, .private_data = event.private_data});
  }
}

}  // namespace weft::programs::iser
