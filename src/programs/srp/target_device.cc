#include "programs/srp/target_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "wire/srp/login.h"

namespace weft::programs::srp {
namespace {

constexpr Duration kLongestEnding = Duration::seconds(5);  // policy: an end takes milliseconds
// Policy: twice the credits, since a quarter of them may wait to be posted again.
constexpr std::uint32_t kReceives = 256;
// Policy: as many that all share, and that there may be where few are left.
constexpr std::uint32_t kFirstShared = 256;
constexpr std::uint32_t kMostShared = 8 * kFirstShared;

}  // namespace

TargetDevice::TargetDevice(asio::io_context& loop, core::Device& device, bool uses_srq,
                           TargetDeviceClient& client)
    : loop_(loop),
      device_(device),
      environment_(device.environment()),
      uses_srq_(uses_srq),
      client_(client),
      ioc_guid_(device.attributes().node_guid) {}

Result<std::unique_ptr<TargetDevice>> TargetDevice::open(asio::io_context& loop,
                                                         core::Device& device, bool uses_srq,
                                                         TargetDeviceClient& client) {
  std::unique_ptr<TargetDevice> made{
      new TargetDevice{loop, device, uses_srq, client}
  };
  const auto begun =
      made->sequence_.begin([target = made.get()](StartStep step) { return target->begin(step); });
  if (!begun) {
    return std::unexpected(begun.error());
  }
  return made;
}

Result<void> TargetDevice::begin(StartStep step) {
  switch (step) {
    case StartStep::Device:
      return begin_device();
    case StartStep::Names:
      if (auto named = client_.name_targets(ioc_guid_); !named) {
        client_.end_sessions(ioc_guid_);  // nobody has logged in
        return named;
      }
      return {};
    case StartStep::Portals:
      if (auto listens = client_.listen(); !listens) {
        return listens;
      }
      takes_logins_ = true;
      return {};
    case StartStep::Management:
      manage_ports();
      return {};
    case StartStep::Events:
      device_events_ = std::make_unique<DeviceEvents>(*this);
      return {};
    case StartStep::Targets:
    case StartStep::Status:
    case StartStep::Devices:
      break;  // the program's
  }
  return {};
}

void TargetDevice::end(StartStep step) {
  switch (step) {
    case StartStep::Events:
      device_events_.reset();
      break;
    case StartStep::Management:
      management_.reset();
      break;
    case StartStep::Portals:
      takes_logins_ = false;
      break;
    case StartStep::Names:
      end_sessions();
      break;
    case StartStep::Device: {
      collect_work_->cancel_and_wait();
      shared_.reset();
      const auto gone = core::deallocate_pd(*pd_);
      WEFT_ASSERT(gone, "everything inside was a connection's");
      break;
    }
    case StartStep::Targets:
    case StartStep::Status:
    case StartStep::Devices:
      break;  // the program's
  }
}

Result<void> TargetDevice::begin_device() {
  const auto pd = core::allocate_pd(device_, {}, "srpt");
  if (!pd) {
    return std::unexpected(pd.error());
  }
  pd_ = *pd;
  if (uses_srq_) {
    share_receives();
  }
  collect_work_ = std::make_unique<core::Work>(environment_, core::WorkContext::UnboundWorkQueue, 0,
                                               [this] { collect(); });
  return {};
}

void TargetDevice::warn(const std::string& text) {
  environment_.log(core::LogLevel::Warning, text);
}

void TargetDevice::manage_ports() {
  management_ =
      std::make_unique<DeviceManagement>(loop_, [this](const std::string& text) { warn(text); });
  tell_management();
  for (std::uint8_t port = 1; port <= device_.port_count(); ++port) {
    management_->refresh_port(name(), port);
  }
}

void TargetDevice::leave() {
  if (std::exchange(is_leaving_, true)) {
    return;
  }
  management_.reset();
  takes_logins_ = false;
  client_.end_sessions(ioc_guid_);
  collect_later();
}

void TargetDevice::end_sessions() {
  client_.end_sessions(ioc_guid_);
  collect_later();
  const bool ended = environment_.wait_until([this] { return connections_.empty(); },
                                             environment_.now() + kLongestEnding);
  WEFT_ASSERT(ended, "every request of a QP in error completes");
  collect_work_->cancel_and_wait();
}

/// Where the device has room; channels have receives of their own otherwise.
void TargetDevice::share_receives() {
  const std::uint32_t most = std::min(kMostShared, device_.attributes().max_srq_wr);
  if (most < kFirstShared) {
    return;
  }
  auto shared =
      weft::iser::SharedReceives::create(environment_, *pd_,
                                         {.first = kFirstShared,
                                          .most = most,
                                          .bytes = weft::srp::PortOptions{}.max_initiator_iu,
                                          .caller = "srpt"});
  if (shared) {
    shared_ = *std::move(shared);
  } else {
    warn(fmt::format("no shared receives: {}", shared.error().reason));
  }
}

std::optional<weft::iser::SharedReceiveCounters> TargetDevice::shared_receives() const {
  return shared_ == nullptr ? std::nullopt : std::optional{shared_->counters()};
}

void TargetDevice::handle_device_event(const core::Event& event) {
  switch (action_of(event.type)) {
    case TargetEventAction::RefreshPort:
      if (management_ != nullptr) {
        management_->refresh_port(name(), event.port.value());
      }
      break;
    case TargetEventAction::Report:
      warn(fmt::format("{}: asynchronous event {}", name(), static_cast<unsigned>(event.type)));
      break;
    case TargetEventAction::Leave:
      client_.handle_gone(*this);
      break;
    case TargetEventAction::Ignore:
    case TargetEventAction::Establish:
    case TargetEventAction::Close:
    case TargetEventAction::LastReceive:
      break;  // of QPs: TargetLink has them
  }
}

bool TargetDevice::refers_to(const weft::srp::Target& target) const {
  return std::ranges::any_of(connections_,
                             [&](const auto& link) { return link->target() == &target; });
}

/// One controller with the targets as its services, which the first portal's port leads to.
void TargetDevice::tell_management() {
  if (management_ == nullptr) {
    return;
  }
  const core::DeviceAttributes& device = device_.attributes();
  const weft::srp::PortOptions port;
  weft::srp::DeviceAgent agent{
      {.ioc_guid = ioc_guid_,
       .vendor_id = device.vendor_id,
       .device_id = device.vendor_part_id,
       .device_version = static_cast<std::uint16_t>(device.hardware_version),
       .id_string = "Weft SRP target",
       .send_queue_depth = static_cast<std::uint16_t>(port.request_limit),
       .send_message_size = port.max_initiator_iu,
       .rdma_size = port.max_rdma_size}
  };
  for (const wire::SrpPortId& id : client_.targets(ioc_guid_)) {
    const std::string service = weft::srp::DeviceAgent::service_name(extension_of(id));
    const auto added = agent.add_service(service, client_.service_id());
    if (!added) {
      warn(added.error().reason);
    }
  }
  management_->set_agent(std::move(agent));
}

void TargetDevice::accept(LoginArrival request) {
  if (!takes_logins_) {
    return;  // rejected
  }
  weft::srp::LoginRequest login{.form = weft::srp::LoginForm::IbCm,
                                .private_data = request.offered.private_data,
                                .source_gid = request.id->peer_gid()};
  if (const auto peer = request.id->peer_address()) {
    login.form = weft::srp::LoginForm::RdmaCm;
    login.source_ip = peer->address;
  }
  TargetNode* const node = client_.node_of(ioc_guid_, login);
  if (node == nullptr) {
    warn("a login came, and there is no target");
    return;
  }
  const auto link = std::make_shared<TargetLink>(
      environment_, *pd_, std::move(request.id), request.offered,
      TargetLinkOptions{.receives = kReceives,
                        .max_initiator_iu = node->options().max_initiator_iu,
                        .shared = shared_.get()},
      [this] { collect_later(); });
  const auto channel = node->target().log_in(TargetNode::port_of(ioc_guid_), login, link);
  if (!channel) {
    warn(fmt::format("a login is refused: {}", name_of(channel.error())));
    return;
  }
  link->bind(node->target(), *channel);
  connections_.push_back(link);
}

/// Frees what nothing is under way of any more.
void TargetDevice::collect() {
  client_.collect();
  std::erase_if(connections_,
                [](const auto& link) { return link->is_quiet() && link->channel() == nullptr; });
  client_.free_targets();
  environment_.notify();
  if (is_leaving_ && connections_.empty() && !std::exchange(quiet_is_told_, true)) {
    client_.handle_quiet(*this);
  }
}

}  // namespace weft::programs::srp
