#include "ulp/iser/testing/simulated_cm.h"

#include <algorithm>
#include <charconv>
#include <utility>

namespace weft::iser::testing {

SimulatedId::~SimulatedId() {
  std::erase(cm_.ids_, this);
  std::erase_if(cm_.steps_, [&](const auto& step) { return step.about == this; });
  if (peer_ != nullptr) {
    peer_->peer_ = nullptr;
  }
}

core::Device* SimulatedId::device() const {
  return is_resolved_ ? &cm_.network_.host(host_).device() : nullptr;
}

Result<void> SimulatedId::resolve_address(std::string_view address, Duration timeout) {
  const auto parsed =
      std::from_chars(address.data(), address.data() + address.size(), remote_host_);
  if (parsed.ec != std::errc{} || !cm_.listeners_.contains(remote_host_)) {
    cm_.after(*this, timeout, [this] { handler_->handle_cm({CmEvent::AddressError, {}}); });
    return {};
  }
  cm_.soon(*this, [this] {
    is_resolved_ = true;
    handler_->handle_cm({CmEvent::AddressResolved, {}});
  });
  return {};
}

Result<void> SimulatedId::resolve_route(Duration /*timeout*/) {
  cm_.report(*this, CmEvent::RouteResolved);
  return {};
}

Result<void> SimulatedId::set_qp(core::Qp& qp) {
  qp_ = &qp;
  core::QpFields fields;
  fields.attributes.port = PortNumber{1};
  fields.attributes.access =
      verbs::AccessFlags{verbs::Access::RemoteWrite} | verbs::Access::RemoteRead;
  return core::apply_qp_fields(qp, fields);
}

bool SimulatedId::join() {
  core::QpFields fields;
  fields.state = verbs::QpState::Rts;
  verbs::QpAttributes& attributes = fields.attributes;
  attributes.port = PortNumber{1};
  attributes.access = verbs::AccessFlags{verbs::Access::RemoteWrite} | verbs::Access::RemoteRead;
  attributes.path_mtu = verbs::Mtu::Mtu1024;
  attributes.dest_qpn = remote_qpn_;
  attributes.rq_psn = Psn{0x300};
  attributes.sq_psn = Psn{0x300};
  attributes.max_rd_atomic = 4;
  attributes.max_dest_rd_atomic = 16;
  attributes.min_rnr_timer = 12;
  attributes.timeout = TimeoutExponent{12};
  attributes.retry_count = 7;
  attributes.rnr_retry = 7;
  attributes.address.dlid = core::testing::EngineNetwork::lid_of(remote_host_);
  attributes.address.port = PortNumber{1};
  return core::apply_qp_fields(*qp_, fields).has_value();
}

Result<void> SimulatedId::connect(const verbs::ConnectionParameters& parameters) {
  cm_.soon(*this, [this, parameters] {
    auto id = std::make_unique<SimulatedId>(cm_, remote_host_);
    cm_.ids_.push_back(id.get());
    id->is_resolved_ = true;
    id->remote_host_ = host_;
    id->remote_qpn_ = parameters.qpn;
    id->peer_ = this;
    peer_ = id.get();
    cm_.listeners_[remote_host_](std::move(id), parameters.private_data);
    if (peer_ == nullptr) {
      cm_.report(*this, CmEvent::Rejected);
    }
  });
  return {};
}

Result<void> SimulatedId::accept(const verbs::ConnectionParameters& parameters) {
  if (!join()) {
    return fail(ErrorCode::InvalidArgument, "the QP does not become ready");
  }
  cm_.accept_data = parameters.private_data;
  if (peer_ == nullptr) {
    return {};
  }
  cm_.soon(*peer_, [id = peer_, parameters] {
    id->remote_qpn_ = parameters.qpn;
    const bool is_joined = id->join();
    id->handler_->handle_cm({is_joined ? CmEvent::Established : CmEvent::ConnectError,
                             ByteSpan{parameters.private_data}});
  });
  cm_.report(*this, CmEvent::Established);
  return {};
}

void SimulatedId::disconnect() {
  ++cm_.disconnects;
  if (peer_ != nullptr) {
    cm_.report(*peer_, CmEvent::Disconnected);
    cm_.report(*this, CmEvent::Disconnected);
  }
}

SimulatedCm::SimulatedCm(core::Environment& environment, core::testing::EngineNetwork& network,
                         std::uint64_t seed)
    : Client("simulated_cm"), environment_(environment), network_(network), random_(seed) {}

SimulatedCm::~SimulatedCm() { environment_.revoke(tick_); }

std::unique_ptr<SimulatedId> SimulatedCm::make_id(std::size_t host, CmHandler& handler) {
  auto id = std::make_unique<SimulatedId>(*this, host);
  id->set_handler(handler);
  ids_.push_back(id.get());
  return id;
}

void SimulatedCm::remove_device(std::size_t host) {
  for (SimulatedId* const id : ids_) {
    if (id->host_ == host && id->is_resolved_) {
      report(*id, CmEvent::DeviceRemoval);
    }
  }
}

void SimulatedCm::report_all(std::size_t host, CmEvent event) {
  for (SimulatedId* const id : ids_) {
    if (id->host_ == host) {
      report(*id, event);
    }
  }
}

void SimulatedCm::remove(core::Device& device, void* /*data*/) {
  const auto ids = [this, &device] {
    return std::ranges::count_if(ids_,
                                 [&](const SimulatedId* id) { return id->device() == &device; });
  };
  for (SimulatedId* const id : ids_) {
    if (id->device() == &device) {
      report(*id, CmEvent::DeviceRemoval);
    }
  }
  environment_.wait_until([&] { return ids() == 0; }, Instant::never());
}

void SimulatedCm::after(SimulatedId& about, Duration delay, std::function<void()> happen) {
  steps_.push_back({environment_.now() + delay, &about, std::move(happen)});
  reschedule();
}

void SimulatedCm::soon(SimulatedId& about, std::function<void()> happen) {
  const auto span = static_cast<std::uint64_t>(longest_step.microseconds()) + 1;
  after(about, Duration::microseconds(static_cast<std::int64_t>(random_.below(span))),
        std::move(happen));
}

void SimulatedCm::report(SimulatedId& to, CmEvent event, std::vector<std::byte> private_data) {
  soon(to, [&to, event, data = std::move(private_data)] {
    to.handler_->handle_cm({event, ByteSpan{data}});
  });
}

void SimulatedCm::reschedule() {
  environment_.revoke(tick_);
  if (const auto next = std::ranges::min_element(steps_, {}, &Step::at); next != steps_.end()) {
    environment_.post(tick_, core::WorkContext::UnboundWorkQueue, 0,
                      std::max(Duration{}, next->at - environment_.now()));
  }
}

void SimulatedCm::run() {
  const auto next = std::ranges::min_element(steps_, {}, &Step::at);
  if (next != steps_.end() && next->at <= environment_.now()) {
    const std::function<void()> happen = std::move(next->happen);
    steps_.erase(next);
    happen();
  }
  reschedule();
}

}  // namespace weft::iser::testing
