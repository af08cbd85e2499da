#include "programs/srp/target_service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <system_error>
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

void say(const Error& error) { fmt::print(stderr, "weft-srp: not reloaded: {}\n", error.reason); }

}  // namespace

Result<std::unique_ptr<TargetService>> TargetService::start(
    const iscsi::Configuration& configuration, const std::string& device, bool uses_srq,
    Reload reload) {
  std::unique_ptr<TargetService> service{new TargetService};
  service->reload_ = std::move(reload);
  if (auto opened = service->open(configuration, device, uses_srq); !opened) {
    return std::unexpected(opened.error());
  }
  return service;
}

Result<void> TargetService::open(const iscsi::Configuration& configuration,
                                 const std::string& device, bool uses_srq) {
  const auto begin = [&](StartStep step) -> Result<void> {
    switch (step) {
      case StartStep::Device:
        return open_device(device, uses_srq);
      case StartStep::Targets:
        for (const iscsi::TargetConfiguration& target : configuration.targets) {
          if (auto added = add(target); !added) {
            nodes_.clear();  // nobody has logged in
            return added;
          }
        }
        return {};
      case StartStep::Portals:
        return listen(configuration.portals);
      case StartStep::Management:
        manage_ports();
        return {};
      case StartStep::Events:
        device_events_ = std::make_unique<DeviceEvents>(*this);
        return {};
      case StartStep::Status:
        if (auto status =
                StatusSocket::open(loop_, "target", [this] { return to_json(report()); })) {
          status_ = *std::move(status);
        }  // else: on a machine that is no simulated host, nobody asks
        return {};
    }
    return {};
  };
  if (auto begun = sequence_.begin(begin); !begun) {
    return begun;
  }
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.add(SIGHUP);
  await_signal();
  return {};
}

Result<void> TargetService::open_device(const std::string& device, bool uses_srq) {
  auto opened = rdma::Host::open(loop_, device, "weft-srp");
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
  if (uses_srq) {
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

void TargetService::manage_ports() {
  management_ = std::make_unique<DeviceManagement>(loop_, [this](const std::string& text) {
    host_->environment().log(core::LogLevel::Warning, text);
  });
  tell_management();
  for (std::uint8_t port = 1; port <= host_->device().port_count(); ++port) {
    management_->refresh_port(std::string{host_->device().name()}, port);
  }
}

TargetService::~TargetService() { sequence_.end(); }

void TargetService::end(StartStep step) {
  switch (step) {
    case StartStep::Status:
      status_.reset();
      break;
    case StartStep::Events:
      device_events_.reset();
      break;
    case StartStep::Management:
      management_.reset();
      break;
    case StartStep::Portals:
      stop_listening();
      break;
    case StartStep::Targets:
      end_targets();
      break;
    case StartStep::Device:
      collect_work_->cancel_and_wait();
      shared_.reset();
      const auto gone = core::deallocate_pd(*pd_);
      WEFT_ASSERT(gone, "everything inside was a connection's");
      break;
  }
}

void TargetService::stop_listening() {
  listeners_.clear();
  accept_work_->cancel_and_wait();
  requests_.clear();  // rejected
}

/// Sessions end, then their targets go.
void TargetService::end_targets() {
  for (auto node = nodes_.begin(); node != nodes_.end(); node = nodes_.begin()) {
    remove(node);
  }
  core::Environment& environment = host_->environment();
  const bool ended = environment.wait_until([this] { return connections_.empty(); },
                                            environment.now() + kLongestEnding);
  WEFT_ASSERT(ended, "every request of a QP in error completes");
  collect_work_->cancel_and_wait();
  removed_.clear();
}

/// Where the device has room; channels have receives of their own otherwise.
void TargetService::share_receives() {
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
    host_->environment().log(core::LogLevel::Warning,
                             fmt::format("no shared receives: {}", shared.error().reason));
  }
}

void TargetService::handle_device_event(const core::Event& event) {
  switch (action_of(event.type)) {
    case TargetEventAction::RefreshPort:
      management_->refresh_port(std::string{host_->device().name()}, event.port.value());
      break;
    case TargetEventAction::Report:
      host_->environment().log(core::LogLevel::Warning,
                               fmt::format("{}: asynchronous event {}", host_->device().name(),
                                           static_cast<unsigned>(event.type)));
      break;
    case TargetEventAction::Leave:
      end_ = fail(ErrorCode::NoSuchDevice, "{} has gone: its sessions have ended",
                  host_->device().name());
      loop_.stop();  // as at a signal
      break;
    case TargetEventAction::Ignore:
    case TargetEventAction::Establish:
    case TargetEventAction::Close:
    case TargetEventAction::LastReceive:
      break;  // of QPs: TargetLink has them
  }
}

Result<void> TargetService::add(const iscsi::TargetConfiguration& target) {
  auto node = TargetNode::create(loop_, workers_, target, ioc_guid_);
  if (!node) {
    return std::unexpected(node.error());
  }
  const wire::SrpPortId id = (*node)->port_id();
  if (!nodes_.try_emplace(id, *std::move(node)).second) {
    return fail(ErrorCode::Exists, "two targets have the identifier {}", weft::srp::to_string(id));
  }
  return {};
}

/// Logins by a service ID without RDMA-CM's header, as those of IB CM are. A device or a port
/// number without such ids leaves logins by RDMA-CM.
void TargetService::listen_natively() {
  const std::uint64_t service_id = core::native_service_id(listeners_.front()->source_port());
  const auto refused = [&](const Error& error) {
    host_->environment().log(core::LogLevel::Warning,
                             fmt::format("no logins by the service ID {:016x}, only by RDMA-CM: {}",
                                         service_id, error.reason));
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
void TargetService::tell_management() {
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
  for (const auto& [id, node] : nodes_) {
    const std::string name = weft::srp::DeviceAgent::service_name(extension_of(id));
    const auto added = agent.add_service(name, service_id_);
    if (!added) {
      host_->environment().log(core::LogLevel::Warning, added.error().reason);
    }
  }
  management_->set_agent(std::move(agent));
}

TargetReport TargetService::report() const {
  TargetReport report{.pid = getpid(),
                      .device = std::string{host_->device().name()},
                      .service_id = service_id_,
                      .portals = addresses_,
                      .targets = {},
                      .shared = {}};
  if (shared_ != nullptr) {
    report.shared = shared_->counters();
  }
  for (const auto& [id, node] : nodes_) {
    report.targets.push_back(node->status());
  }
  return report;
}

Result<void> TargetService::listen(const std::vector<std::string>& portals) {
  for (const std::string& portal : portals) {
    if (auto listens = listen(portal); !listens) {
      stop_listening();
      return listens;
    }
  }
  service_id_ = service_id_of(listeners_.front()->source_port());
  listen_natively();
  return {};
}

Result<void> TargetService::listen(const std::string& portal) {
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

void TargetService::handle_cm_event(core::RdmaCmId& /*id*/, const core::RdmaCmEvent& event,
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

void TargetService::accept_requests() {
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

/// That which the login names; another than any: the first, which says so in its rejection.
TargetNode* TargetService::node_of(const weft::srp::LoginRequest& request) {
  const auto wanted = weft::srp::target_of(request);
  const auto named = wanted ? nodes_.find(*wanted) : nodes_.end();
  if (named != nodes_.end()) {
    return named->second.get();
  }
  return nodes_.empty() ? nullptr : nodes_.begin()->second.get();
}

void TargetService::accept(Request request) {
  core::Environment& environment = host_->environment();
  if (request.id->device() != &host_->device()) {
    environment.log(core::LogLevel::Warning, "a request came by a device that is not served");
    return;
  }
  weft::srp::LoginRequest login{.form = weft::srp::LoginForm::IbCm,
                                .private_data = request.offered.private_data,
                                .source_gid = request.id->peer_gid()};
  if (const auto peer = request.id->peer_address()) {
    login.form = weft::srp::LoginForm::RdmaCm;
    login.source_ip = peer->address;
  }
  TargetNode* const node = node_of(login);
  if (node == nullptr) {
    environment.log(core::LogLevel::Warning, "a login came, and there is no target");
    return;
  }
  const auto link = std::make_shared<TargetLink>(
      environment, *pd_, std::move(request.id), request.offered,
      TargetLinkOptions{.receives = kReceives,
                        .max_initiator_iu = node->options().max_initiator_iu,
                        .shared = shared_.get()},
      [this] { collect_work_->queue(); });
  const auto channel = node->target().log_in(TargetNode::kPort, login, link);
  if (!channel) {
    environment.log(core::LogLevel::Warning,
                    fmt::format("a login is refused: {}", name_of(channel.error())));
    return;
  }
  link->bind(node->target(), *channel);
  connections_.push_back(link);
}

/// Frees what nothing is under way of any more.
void TargetService::collect() {
  for (const auto& [id, node] : nodes_) {
    node->target().collect();
  }
  for (const auto& node : removed_) {
    node->target().collect();
  }
  std::erase_if(connections_,
                [](const auto& link) { return link->is_quiet() && link->channel() == nullptr; });
  std::erase_if(removed_, [](const auto& node) { return node->target().channels() == 0; });
  host_->environment().notify();
}

std::vector<wire::SrpPortId> TargetService::targets() const {
  std::vector<wire::SrpPortId> ids;
  for (const auto& [id, node] : nodes_) {
    ids.push_back(id);
  }
  return ids;
}

Result<void> TargetService::run() {
  loop_.run();
  return end_;
}

void TargetService::await_signal() {
  signals_.async_wait([this](const std::error_code& error, int signal) {
    if (error) {
      return;
    }
    if (signal == SIGHUP) {
      reload();
      await_signal();
    } else {
      loop_.stop();  // the destructor tells initiators
    }
  });
}

void TargetService::remove(Nodes::iterator node) {
  removed_.push_back(std::move(node->second));
  nodes_.erase(node);
  removed_.back()->release([this] { collect_work_->queue(); });
}

void TargetService::reload() {
  const auto configuration = reload_();
  if (!configuration) {
    say(configuration.error());
    return;
  }
  std::map<wire::SrpPortId, iscsi::TargetConfiguration> wanted;
  for (const iscsi::TargetConfiguration& target : configuration->targets) {
    const auto names = names_of(target, ioc_guid_);
    if (!names) {
      say(names.error());
      return;
    }
    wanted[names->port_id] = target;
  }
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    const auto here = node++;
    const auto stays = wanted.find(here->first);
    if (stays == wanted.end() || stays->second.units != here->second->configuration().units) {
      remove(here);
      continue;
    }
    if (auto changed = here->second->change(stays->second); !changed) {
      say(changed.error());
    }
    wanted.erase(stays);
  }
  for (const auto& [id, target] : wanted) {
    if (auto added = add(target); !added) {
      say(added.error());
    }
  }
  tell_management();
  fmt::print("reloaded\n");
  std::fflush(stdout);
}

}  // namespace weft::programs::srp
