#include "programs/srp/target_service.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <set>
#include <system_error>
#include <utility>

namespace weft::programs::srp {
namespace {

constexpr std::chrono::seconds kRetryInterval{1};  // policy: how soon a device that comes is seen

void say(std::string_view reason) { fmt::print(stderr, "weft-srp: {}\n", reason); }

void say_not_reloaded(const Error& error) { say(fmt::format("not reloaded: {}", error.reason)); }

[[nodiscard]] Error gone_error(const TargetDevice& device) {
  return {ErrorCode::NoSuchDevice,
          fmt::format("{} has gone: its sessions have ended", device.name())};
}

[[nodiscard]] std::optional<std::uint64_t> extension_in(const iscsi::TargetConfiguration& target,
                                                        const wire::SrpPortId& id) {
  return target.name.empty() ? std::nullopt : std::optional{extension_of(id)};
}

}  // namespace

Result<std::unique_ptr<TargetService>> TargetService::start(
    const iscsi::Configuration& configuration, const TargetServiceOptions& options, Reload reload) {
  std::unique_ptr<TargetService> service{new TargetService{options}};
  service->reload_ = std::move(reload);
  if (auto opened = service->open(configuration); !opened) {
    return std::unexpected(opened.error());
  }
  return service;
}

Result<void> TargetService::open(const iscsi::Configuration& configuration) {
  addresses_ = configuration.portals;
  const auto begin = [&](StartStep step) -> Result<void> {
    switch (step) {
      case StartStep::Targets:
        return add_all(configuration.targets);
      case StartStep::Status:
        if (auto status =
                StatusSocket::open(loop_, "target", [this] { return to_json(report()); })) {
          status_ = *std::move(status);
        }  // else: on a machine that is no simulated host, nobody asks
        return {};
      case StartStep::Devices:
        return start_devices();
      case StartStep::Device:
      case StartStep::Names:
      case StartStep::Portals:
      case StartStep::Management:
      case StartStep::Events:
        break;  // the device's
    }
    return {};
  };
  signals_.add(SIGTERM);  // before it says that it listens: who reads that may send one
  signals_.add(SIGINT);
  signals_.add(SIGHUP);
  if (auto begun = sequence_.begin(begin); !begun) {
    return begun;
  }
  await_signal();
  return {};
}

TargetService::~TargetService() {
  ends_ = true;
  sequence_.end();
}

void TargetService::end(StartStep step) {
  switch (step) {
    case StartStep::Devices:
      end_devices();
      break;
    case StartStep::Status:
      status_.reset();
      break;
    case StartStep::Targets:
      removed_.clear();
      nodes_.clear();
      break;
    case StartStep::Device:
    case StartStep::Names:
    case StartStep::Portals:
    case StartStep::Management:
    case StartStep::Events:
      break;  // the device's
  }
}

Result<void> TargetService::add_all(const std::vector<iscsi::TargetConfiguration>& targets) {
  for (const iscsi::TargetConfiguration& target : targets) {
    if (auto added = add(target); !added) {
      nodes_.clear();  // nobody has logged in
      return added;
    }
  }
  return {};
}

Result<void> TargetService::add(const iscsi::TargetConfiguration& target) {
  auto node = TargetNode::create(loop_, workers_, target);
  if (!node) {
    return std::unexpected(node.error());
  }
  const auto extension = extension_in(target, (*node)->port_id());
  if (nodes_.contains(extension)) {
    return fail(ErrorCode::Exists, "two targets have the identifier extension {}",
                extension ? fmt::format("{:016x}", *extension) : "of the device");
  }
  for (const auto& device : devices_) {
    if (device->is_leaving()) {
      continue;
    }
    if (auto named = (*node)->come_to(device->ioc_guid()); !named) {
      return named;
    }
  }
  nodes_.emplace(extension, *std::move(node));
  return {};
}

/// What is missing may come, unless it was there and cannot be served.
Result<void> TargetService::start_devices() {
  const std::vector<Missing> missing = find_devices();
  const bool is_needed = awaited_.are_named() || devices_.empty();
  for (const Missing& one : missing) {
    const bool may_come = options_.waits && one.why.code == ErrorCode::NoSuchDevice;
    if (is_needed && !may_come) {
      end_devices();
      return std::unexpected(one.why);
    }
  }
  say_missing(missing);
  if (options_.waits) {
    look_later();
  }
  return {};
}

void TargetService::end_devices() {
  retry_.cancel();
  while (!devices_.empty()) {
    free_device(*devices_.back());
  }
}

/// Serves those that are there and are not served yet.
std::vector<TargetService::Missing> TargetService::find_devices() {
  std::vector<std::string> there;
  if (!awaited_.are_named()) {
    auto names = verbs_driver::device_names();
    if (!names) {
      return {
          {.name = {}, .why = names.error()}
      };
    }
    there = *std::move(names);
  }
  const std::size_t before = devices_.size();
  std::vector<Missing> missing;
  for (const std::string& name : awaited_.missing(there, served())) {
    if (auto serves = serve(name); serves) {
      awaited_.remove(name);
    } else {
      missing.push_back({.name = name, .why = serves.error()});
    }
  }
  if (devices_.size() > before) {
    announce(before);
  }
  if (devices_.empty() && missing.empty()) {
    missing.push_back({
        .name = {},
        .why = {ErrorCode::NoSuchDevice,
                 "no RDMA device at all: ibv_devices lists those that there are"}
    });
  }
  return missing;
}

Result<void> TargetService::serve(const std::string& name) {
  const auto device = open_device(name);
  if (!device) {
    return std::unexpected(device.error());
  }
  auto served = TargetDevice::open(loop_, **device, options_.uses_srq, *this);
  if (!served) {
    close_device(**device);
    return std::unexpected(served.error());
  }
  devices_.push_back(*std::move(served));
  return {};
}

/// The first brings the host and its portals with it, which the last takes away again: librdmacm
/// finds nobody anew as long as it is in use.
Result<core::Device*> TargetService::open_device(const std::string& name) {
  if (host_ != nullptr) {
    return host_->add_device(name);
  }
  auto host = rdma::Host::open(loop_, name, "weft-srp");
  if (!host) {
    return std::unexpected(host.error());
  }
  host_ = *std::move(host);
  portals_ =
      std::make_unique<TargetPortals>(host_->environment(), host_->cm(), addresses_,
                                      [this](LoginArrival arrival) { take(std::move(arrival)); });
  return &host_->device();
}

/// In its place until it has ended: what ends looks at all devices.
void TargetService::free_device(TargetDevice& gone) {
  gone.end();
  core::Device& device = gone.device();
  std::erase_if(devices_, [&](const auto& one) { return one.get() == &gone; });
  close_device(device);
}

void TargetService::close_device(core::Device& device) {
  if (devices_.empty()) {
    portals_.reset();
    host_.reset();
  } else {
    host_->remove_device(device);
  }
}

/// A device that goes is one that comes later, and a portal's address comes with its device.
void TargetService::look_again() {
  say_missing(find_devices());
  const bool is_there =
      std::ranges::any_of(devices_, [](const auto& one) { return !one->is_leaving(); });
  if (is_there && !portals_->is_complete()) {
    const auto listens = listen();
    const std::string why = listens ? std::string{} : listens.error().reason;
    if (std::exchange(portal_told_, why) != why && !why.empty()) {
      say(why);
    }
  }
  look_later();
}

void TargetService::look_later() {
  retry_.expires_after(kRetryInterval);
  retry_.async_wait([this](const std::error_code& error) {
    if (!error && !ends_) {
      look_again();
    }
  });
}

void TargetService::say_missing(const std::vector<Missing>& missing) {
  for (const Missing& one : missing) {
    const AwaitedDevices::News news = awaited_.add(one.name, one.why);
    if (!news.reason.empty()) {
      say(news.reason);
    }
    if (!news.waits_for.empty() && options_.waits) {
      fmt::print("waiting for {}\n", news.waits_for);
      std::fflush(stdout);
    }
  }
}

std::vector<std::string> TargetService::served() const {
  std::vector<std::string> names;
  for (const auto& device : devices_) {
    names.push_back(device->name());
  }
  return names;
}

/// Of the devices from that one on.
void TargetService::announce(std::size_t first) const {
  for (std::size_t i = first; i < devices_.size(); ++i) {
    for (const wire::SrpPortId& id : targets(devices_[i]->ioc_guid())) {
      fmt::print("target {}\n", weft::srp::to_string(id));
    }
  }
  for (const std::string& address : addresses_) {
    fmt::print("listening on {}\n", address);
  }
  std::fflush(stdout);
}

Result<void> TargetService::listen() {
  auto listens = portals_->listen();
  addresses_ = portals_->addresses();
  return listens;
}

void TargetService::take(LoginArrival arrival) {
  core::Device* const by = arrival.id->device();
  const auto served =
      std::ranges::find_if(devices_, [by](const auto& device) { return &device->device() == by; });
  if (served == devices_.end()) {
    say("a request came by a device that is not served");
  } else {
    (*served)->accept(std::move(arrival));
  }
}

Result<void> TargetService::name_targets(Guid ioc_guid) {
  std::set<wire::SrpPortId> ids;
  for (const auto& [extension, node] : nodes_) {
    if (auto named = node->come_to(ioc_guid); !named) {
      return named;
    }
    const wire::SrpPortId id = node->port_id(ioc_guid);
    if (!ids.insert(id).second) {
      return fail(ErrorCode::Exists, "two targets have the identifier {}",
                  weft::srp::to_string(id));
    }
  }
  return {};
}

/// Of each that is released, the device collects its channels.
void TargetService::end_sessions(Guid ioc_guid) {
  for (const auto& [extension, node] : nodes_) {
    node->leave(ioc_guid, [] {});
  }
}

/// That which the login names; another than any: the first, which says so in its rejection.
TargetNode* TargetService::node_of(Guid ioc_guid, const weft::srp::LoginRequest& request) {
  const auto wanted = weft::srp::target_of(request);
  for (const auto& [extension, node] : nodes_) {
    if (wanted && node->port_id(ioc_guid) == *wanted) {
      return node.get();
    }
  }
  return nodes_.empty() ? nullptr : nodes_.begin()->second.get();
}

std::vector<wire::SrpPortId> TargetService::targets(Guid ioc_guid) const {
  std::vector<wire::SrpPortId> ids;
  for (const auto& [extension, node] : nodes_) {
    ids.push_back(node->port_id(ioc_guid));
  }
  std::ranges::sort(ids);
  return ids;
}

void TargetService::collect() {
  for (const auto& [extension, node] : nodes_) {
    node->target().collect();
  }
  for (const auto& node : removed_) {
    node->target().collect();
  }
}

void TargetService::free_targets() {
  std::erase_if(removed_, [this](const auto& node) {
    const weft::srp::Target& target = node->target();
    return target.channels() == 0 && std::ranges::none_of(devices_, [&](const auto& device) {
             return device->refers_to(target);
           });
  });
}

void TargetService::handle_gone(TargetDevice& device) {
  const auto here =
      std::ranges::count_if(devices_, [](const auto& one) { return !one->is_leaving(); });
  if (!options_.waits && here == 1 && !device.is_leaving()) {
    end_ = std::unexpected(gone_error(device));
    loop_.stop();  // as at a signal
    return;
  }
  device.leave();
}

void TargetService::handle_quiet(TargetDevice& device) {
  asio::post(loop_, [this, gone = &device] {
    const auto found = std::ranges::find(devices_, gone, &std::unique_ptr<TargetDevice>::get);
    if (ends_ || found == devices_.end()) {
      return;
    }
    if (std::exchange(is_freeing_, true)) {
      handle_quiet(**found);  // another is being freed, and waits in the loop: afterwards
      return;
    }
    Missing left{.name = (*found)->name(), .why = gone_error(**found)};
    free_device(**found);
    is_freeing_ = false;
    if (!awaited_.are_named() && devices_.empty()) {
      left.name.clear();  // whichever comes
    }
    say_missing({left});
  });
}

TargetReport TargetService::report() const {
  TargetReport report{.pid = getpid(),
                      .devices = {},
                      .service_id = portals_ != nullptr ? portals_->service_id() : 0,
                      .portals = addresses_,
                      .targets = {}};
  for (const auto& device : devices_) {
    report.devices.push_back({.name = device->name(), .shared = device->shared_receives()});
  }
  for (const auto& [extension, node] : nodes_) {
    TargetStatus status = node->status();
    for (const auto& device : devices_) {
      const Guid guid = device->ioc_guid();
      status.ports.push_back(
          {.id = node->port_id(guid), .name = TargetNode::port_of(guid), .device = device->name()});
    }
    if (status.ports.empty()) {
      status.ports.push_back({.id = node->port_id()});
    }
    report.targets.push_back(std::move(status));
  }
  return report;
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
  removed_.back()->leave_all();
  for (const auto& device : devices_) {
    device->collect_later();
  }
  if (devices_.empty()) {
    free_targets();
  }
}

void TargetService::reload() {
  const auto configuration = reload_();
  if (!configuration) {
    say_not_reloaded(configuration.error());
    return;
  }
  std::map<std::optional<std::uint64_t>, iscsi::TargetConfiguration> wanted;
  for (const iscsi::TargetConfiguration& target : configuration->targets) {
    const auto names = names_of(target, Guid{});
    if (!names) {
      say_not_reloaded(names.error());
      return;
    }
    wanted[extension_in(target, names->port_id)] = target;
  }
  for (auto node = nodes_.begin(); node != nodes_.end();) {
    const auto here = node++;
    const auto stays = wanted.find(here->first);
    if (stays == wanted.end() || stays->second.units != here->second->configuration().units) {
      remove(here);
      continue;
    }
    if (auto changed = here->second->change(stays->second); !changed) {
      say_not_reloaded(changed.error());
    }
    wanted.erase(stays);
  }
  for (const auto& [extension, target] : wanted) {
    if (auto added = add(target); !added) {
      say_not_reloaded(added.error());
    }
  }
  for (const auto& device : devices_) {
    device->tell_management();
  }
  fmt::print("reloaded\n");
  std::fflush(stdout);
}

}  // namespace weft::programs::srp
