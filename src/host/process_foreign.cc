// Objects that several processes share: what joins the classes in host/foreign to each other, to
// the program and to this process's QPs.

#include "base/process_slot.h"
#include "host/process_impl.h"

namespace weft::host {

// --- what engines say

void HcaEventRelay::xrc_proxy_requested(const hca::XrcProxyRequest& request) {
  process_.connection.post(uabi::XrcRelay{
      .peer = {.node = process_.self.node, .slot = request.slot},
      .domain = request.domain,
      .action = uabi::XrcMessage::RequestProxy,
      .serial = request.serial,
      .target = request.of.target,
      .proxy = {},
      .is_for_reads = request.is_for_reads,
      .source = request.of.source,
      .slid = request.of.slid,
      .sl = request.of.sl.value(),
      .port = request.port.value(),
      .pkey_index = request.pkey_index,
      .path_mtu = static_cast<std::uint8_t>(request.path_mtu),
      .min_rnr_timer = request.min_rnr_timer
  });
}

void HcaEventRelay::xrc_proxies_released(std::uint32_t domain, Qpn target) {
  uabi::XrcRelay message;
  message.domain = domain;
  message.action = uabi::XrcMessage::ProxiesReleased;
  message.target = target;
  process_.connection.post(message);
}

// --- what the daemon says

void Process::Impl::handle_shared_object(const uabi::Message& message) {
  if (const auto* domain = std::get_if<uabi::XrcDomainOpened>(&message)) {
    xrc_domains.handle(*domain);
  } else if (const auto* relay = std::get_if<uabi::XrcRelay>(&message)) {
    handle_relay(*relay);
  } else if (const auto* question = std::get_if<uabi::XrcTargetRequest>(&message)) {
    if (question->verb == uabi::TargetVerb::Close) {
      xrc_domains.remove_opener(question->peer, question->domain, question->target);
    } else {
      connection.post(shared_targets.answer(*question));
    }
  } else if (const auto* answer = std::get_if<uabi::XrcTargetAnswer>(&message)) {
    peer_targets.handle(*answer);
  } else if (const auto* event = std::get_if<uabi::XrcTargetEvent>(&message)) {
    peer_targets.handle(*event);
  } else if (const auto* imported = std::get_if<uabi::DeviceImported>(&message)) {
    imports.handle(*imported);
  } else if (const auto* asked = std::get_if<uabi::ObjectRequest>(&message)) {
    imports.handle(*asked);
  } else if (const auto* object = std::get_if<uabi::ObjectAnswer>(&message)) {
    imports.handle(*object);
  } else if (const auto* left = std::get_if<uabi::DeviceGone>(&message)) {
    imports.handle(*left);
  }
}

void Process::Impl::handle_relay(const uabi::XrcRelay& message) {
  xrc_domains.handle(message);
  switch (message.action) {
    case uabi::XrcMessage::RequestProxy:
    case uabi::XrcMessage::ProxiesReleased:
      return;
    case uabi::XrcMessage::PeerGone:
      xrc_domains.remove_opener(message.peer, message.domain, std::nullopt);
      peer_targets.lose(message.peer, message.domain);
      break;
    case uabi::XrcMessage::Proxy:
    case uabi::XrcMessage::NoProxy:
      break;
  }
  notify_targets(message);
}

/// What came of a question for a proxy QP, or that a process has gone.
void Process::Impl::notify_targets(const uabi::XrcRelay& message) {
  if (message.peer.node != self.node) {
    return;
  }
  for_each_qp_of(message.domain, [&](hca::Qp& qp) {
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

// --- QPs of this process

void Process::Impl::carry_for_proxy(std::uint32_t hca, hca::Qp& qp) {
  hca::QpInit init;
  init.type = hca::QpType::XrcTarget;
  bind(qps.add(qp, hca, init));
}

void Process::Impl::for_each_qp_of(std::uint32_t domain,
                                   const std::function<bool(hca::Qp&)>& visit) {
  const QuiesceGuard quiesced{*this};
  qps.for_each([&](hca::Qp& qp, QpDriverState& qp_state) {
    const hca::XrcDomain* const its = qp.xrc_domain();
    if (its != nullptr && its->name == domain && visit(qp)) {
      settle(qp_state);
    }
  });
}

// --- what the program asks for

Result<hca::XrcDomain*> Process::open_xrc_domain(std::uint32_t hca, int fd, bool creates,
                                                 bool is_exclusive) {
  return impl_->xrc_domains.open(hca, fd, creates, is_exclusive);
}

Result<void> Process::close_xrc_domain(std::uint32_t hca, hca::XrcDomain& domain) {
  return impl_->xrc_domains.close(hca, domain);
}

Result<hca::Qp*> Process::open_target(const hca::XrcDomain& domain, Qpn target) {
  if (domain.name == 0 || slot_of(target) == impl_->self.slot) {
    return impl_->shared_targets.open_again(domain.name, target);
  }
  const auto opened = impl_->peer_targets.open(domain.name, target);
  return opened ? Result<hca::Qp*>{nullptr} : std::unexpected(opened.error());
}

void Process::close_target(std::uint32_t domain, Qpn target) {
  impl_->peer_targets.close(domain, target);
}

Result<void> Process::modify_target(std::uint32_t domain, Qpn target,
                                    const hca::QpAttributes& attributes,
                                    hca::QpAttributeMask mask) {
  return impl_->peer_targets.modify(domain, target, attributes, mask);
}

Result<hca::QpAttributes> Process::query_target(std::uint32_t domain, Qpn target) {
  return impl_->peer_targets.query(domain, target);
}

Result<void> Process::release_target(std::uint32_t hca, hca::Qp& target) {
  return impl_->shared_targets.release(target) ? impl_->destroy_qp(hca, target) : Result<void>{};
}

void Process::share_device(std::uint32_t hca, int command) {
  impl_->imports.share_device(hca, command);
}

void Process::unshare_device(std::uint32_t hca, int command) {
  impl_->imports.unshare_device(hca, command);
}

Result<ImportedDevice> Process::import_device(int command) {
  return impl_->imports.import_device(command);
}

void Process::leave_device(const ImportedDevice& device) { impl_->imports.leave_device(device); }

Result<uabi::ObjectAnswer> Process::ask_for_object(const ImportedDevice& device,
                                                   uabi::ImportVerb verb, std::uint32_t handle) {
  return impl_->imports.ask_for_object(device, verb, handle);
}

}  // namespace weft::host
