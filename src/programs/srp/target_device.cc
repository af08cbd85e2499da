#include "programs/srp/target_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "programs/iscsi/transport.h"
#include "wire/srp/login.h"

namespace weft::programs::srp {
namespace {

constexpr int kBacklog = 128;                              // policy
constexpr Duration kLongestEnding = Duration::seconds(5);  // policy: an end takes milliseconds
// Policy: twice the credits, since a quarter of them may wait to be posted again.
constexpr std::uint32_t kReceives = 256;
// Policy: as many that all share, and that there may be where few are left.
constexpr std::uint32_t kFirstShared = 256;
constexpr std::uint32_t kMostShared = 8 * kFirstShared;

}  // namespace

Result<std::unique_ptr<TargetDevice>> TargetDevice::open(asio::io_context& loop,
                                                         TargetDeviceOptions options,
                                                         TargetDeviceClient& client) {
  std::unique_ptr<TargetDevice> device{
      new TargetDevice{loop, std::move(options), client}
  };
  const auto begun =
      device->sequence_.begin([made = device.get()](StartStep step) { return made->begin(step); });
  if (!begun) {
    return std::unexpected(begun.error());
  }
  return device;
}

TargetDevice::~TargetDevice() { sequence_.end(); }

Result<void> TargetDevice::begin(StartStep step) {
  switch (step) {
    case StartStep::Device:
      return open_device();
    case StartStep::Names:
      if (auto named = client_.name_targets(ioc_guid_); !named) {
        client_.end_sessions();  // nobody has logged in
        return named;
      }
      return {};
    case StartStep::Portals:
      return listen();
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
      stop_listening();
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

Result<void> TargetDevice::open_device() {
  auto opened = rdma::Host::open(loop_, options_.name, "weft-srp");
  if (!opened) {
    return std::unexpected(opened.error());
  }
  host_ = *std::move(opened);
  ioc_guid_ = host_->device().attributes().node_guid;
  const auto pd = core::allocate_pd(host_->device(), {}, "srpt");
  if (!pd) {
    return std::unexpected(pd.error());
  }
  pd_ = *pd;
  if (options_.uses_srq) {
    share_receives();
  }
  const auto work = [this](auto function) {
    return std::make_unique<core::Work>(host_->environment(), core::WorkContext::UnboundWorkQueue,
                                        0, std::move(function));
  };
  accept_work_ = work([this] { accept_requests(); });
  collect_work_ = work([this] { collect(); });
  return {};
}

void TargetDevice::warn(const std::string& text) {
  host_->environment().log(core::LogLevel::Warning, text);
}

void TargetDevice::manage_ports() {
  management_ =
      std::make_unique<DeviceManagement>(loop_, [this](const std::string& text) { warn(text); });
  tell_management();
  for (std::uint8_t port = 1; port <= host_->device().port_count(); ++port) {
    management_->refresh_port(name(), port);
  }
}

void TargetDevice::leave() {
  if (std::exchange(is_leaving_, true)) {
    return;
  }
  management_.reset();
  stop_listening();
  client_.end_sessions();
  collect_later();
}

void TargetDevice::stop_listening() {
  listeners_.clear();
  accept_work_->cancel_and_wait();
  requests_.clear();  // rejected
}

void TargetDevice::end_sessions() {
  client_.end_sessions();
  core::Environment& environment = host_->environment();
  collect_later();
  const bool ended = environment.wait_until([this] { return connections_.empty(); },
                                            environment.now() + kLongestEnding);
  WEFT_ASSERT(ended, "every request of a QP in error completes");
  collect_work_->cancel_and_wait();
}

/// Where the device has room; channels have receives of their own otherwise.
void TargetDevice::share_receives() {
  const std::uint32_t most = std::min(kMostShared, host_->device().attributes().max_srq_wr);
  if (most < kFirstShared) {
    return;
  }
  auto shared =
      weft::iser::SharedReceives::create(host_->environment(), *pd_,
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
      client_.handle_gone();
      break;
    case TargetEventAction::Ignore:
    case TargetEventAction::Establish:
    case TargetEventAction::Close:
    case TargetEventAction::LastReceive:
      break;  // of QPs: TargetLink has them
  }
}

/// Logins by a service ID without RDMA-CM's header, as those of IB CM are. A device or a port
/// number without such ids leaves logins by RDMA-CM.
void TargetDevice::listen_natively() {
  const std::uint64_t service_id = core::native_service_id(listeners_.front()->source_port());
  const auto refused = [&](const Error& error) {
    warn(fmt::format("no logins by the service ID {:016x}, only by RDMA-CM: {}", service_id,
                     error.reason));
  };
  auto id = host_->cm().create_native_id(*this);
  if (!id) {
    return refused(id.error());
  }
  const auto bound = (*id)->bind({.native = core::NativeAddress{.service_id = service_id}});
  if (!bound) {
    return refused(bound.error());
  }
  if (const auto listens = (*id)->listen(kBacklog); !listens) {
    return refused(listens.error());
  }
  listeners_.push_back(*std::move(id));
  service_id_ = service_id;
}

/// One controller with the targets as its services, which the first portal's port leads to.
void TargetDevice::tell_management() {
  if (management_ == nullptr) {
    return;
  }
  const core::DeviceAttributes& device = host_->device().attributes();
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
  for (const wire::SrpPortId& id : client_.targets()) {
    const std::string service = weft::srp::DeviceAgent::service_name(extension_of(id));
    const auto added = agent.add_service(service, service_id_);
    if (!added) {
      warn(added.error().reason);
    }
  }
  management_->set_agent(std::move(agent));
}

Result<void> TargetDevice::listen() {
  for (const std::string& portal : options_.portals) {
    if (auto listens = listen(portal); !listens) {
      stop_listening();
      return listens;
    }
  }
  service_id_ = service_id_of(listeners_.front()->source_port());
  listen_natively();
  return {};
}

Result<void> TargetDevice::listen(const std::string& portal) {
  const auto parsed = iscsi::parse_host_and_port(portal);
  if (!parsed) {
    return std::unexpected(parsed.error());
  }
  const auto ip = parse_ip_address(parsed->host);
  if (!ip) {
    return std::unexpected(ip.error());
  }
  auto id = host_->cm().create_id(*this);
  if (!id) {
    return std::unexpected(id.error());
  }
  if (const auto bound = (*id)->bind({.address = *ip, .port = parsed->port}); !bound) {
    return fail(bound.error().code, "{}: {}", portal, bound.error().reason);
  }
  if (const auto listens = (*id)->listen(kBacklog); !listens) {
    return fail(listens.error().code, "{}: {}", portal, listens.error().reason);
  }
  addresses_.push_back(
      fmt::format("{}:{}", portal.substr(0, portal.rfind(':')), (*id)->source_port()));
  listeners_.push_back(*std::move(id));
  return {};
}

void TargetDevice::handle_cm_event(core::RdmaCmId& /*id*/, const core::RdmaCmEvent& event,
                                   std::unique_ptr<core::RdmaCmId> request) {
  if (event.type != verbs::RdmaCmEventType::ConnectRequest) {
    return;  // of a request that waits: its accept() fails
  }
  {
    const std::lock_guard lock{mutex_};
    requests_.push_back({.id = std::move(request), .offered = event.parameters});
  }
  accept_work_->queue();
}

void TargetDevice::accept_requests() {
  for (;;) {
    std::deque<Request> came;
    {
      const std::lock_guard lock{mutex_};
      came.swap(requests_);
    }
    if (came.empty()) {
      return;
    }
    for (Request& request : came) {
      accept(std::move(request));
    }
  }
}

void TargetDevice::accept(Request request) {
  if (request.id->device() != &host_->device()) {
    warn("a request came by a device that is not served");
    return;
  }
  weft::srp::LoginRequest login{.form = weft::srp::LoginForm::IbCm,
                                .private_data = request.offered.private_data,
                                .source_gid = request.id->peer_gid()};
  if (const auto peer = request.id->peer_address()) {
    login.form = weft::srp::LoginForm::RdmaCm;
    login.source_ip = peer->address;
  }
  TargetNode* const node = client_.node_of(login);
  if (node == nullptr) {
    warn("a login came, and there is no target");
    return;
  }
  const auto link = std::make_shared<TargetLink>(
      host_->environment(), *pd_, std::move(request.id), request.offered,
      TargetLinkOptions{.receives = kReceives,
                        .max_initiator_iu = node->options().max_initiator_iu,
                        .shared = shared_.get()},
      [this] { collect_later(); });
  const auto channel = node->target().log_in(node->port(), login, link);
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
  host_->environment().notify();
  if (is_leaving_ && connections_.empty() && !std::exchange(quiet_is_told_, true)) {
    client_.handle_quiet();
  }
}

}  // namespace weft::programs::srp
