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
  portals_ = configuration.portals;
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
  if (auto begun = sequence_.begin(begin); !begun) {
    return begun;
  }
  signals_.add(SIGTERM);
  signals_.add(SIGINT);
  signals_.add(SIGHUP);
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
      retry_.cancel();
      device_.reset();
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
  if (device_ != nullptr) {
    if (auto named = (*node)->come_to(device_->ioc_guid()); !named) {
      return named;
    }
  }
  nodes_.emplace(extension, *std::move(node));
  return {};
}

Result<void> TargetService::start_devices() {
  auto found = find_device();
  if (!found && options_.waits && found.error().code == ErrorCode::NoSuchDevice) {
    wait_for_device(found.error());
    return {};
  }
  return found;
}

Result<void> TargetService::find_device() {
  auto device = TargetDevice::open(
      loop_, {.name = options_.device, .uses_srq = options_.uses_srq, .portals = portals_}, *this);
  if (!device) {
    return std::unexpected(device.error());
  }
  device_ = *std::move(device);
  portals_ = device_->addresses();
  told_.clear();
  announce();
  return {};
}

/// Why there is none is told once; that there is none, when the waiting begins.
void TargetService::wait_for_device(const Error& why) {
  const bool begins = told_.empty();
  if (begins || (why.code != ErrorCode::NoSuchDevice && told_ != why.reason)) {
    say(why.reason);
    if (begins) {
      fmt::print("waiting for {}\n", options_.device.empty() ? "an RDMA device" : options_.device);
      std::fflush(stdout);
    }
    told_ = why.reason;
  }
  retry_.expires_after(kRetryInterval);
  retry_.async_wait([this](const std::error_code& error) {
    if (error || ends_) {
      return;
    }
    if (const auto found = find_device(); !found) {
      wait_for_device(found.error());
    }
  });
}

void TargetService::announce() const {
  for (const wire::SrpPortId& id : targets()) {
    fmt::print("target {}\n", weft::srp::to_string(id));
  }
  for (const std::string& address : device_->addresses()) {
    fmt::print("listening on {}\n", address);
  }
  std::fflush(stdout);
}

Result<void> TargetService::name_targets(Guid ioc_guid) {
  std::set<wire::SrpPortId> ids;
  for (const auto& [extension, node] : nodes_) {
    if (auto named = node->come_to(ioc_guid); !named) {
      return named;
    }
    if (!ids.insert(node->port_id()).second) {
      return fail(ErrorCode::Exists, "two targets have the identifier {}",
                  weft::srp::to_string(node->port_id()));
    }
  }
  return {};
}

/// Of each that is released, the device collects its channels.
void TargetService::end_sessions() {
  for (const auto& [extension, node] : nodes_) {
    node->leave([] {});
  }
}

/// That which the login names; another than any: the first, which says so in its rejection.
TargetNode* TargetService::node_of(const weft::srp::LoginRequest& request) {
  const auto wanted = weft::srp::target_of(request);
  for (const auto& [extension, node] : nodes_) {
    if (wanted && node->port_id() == *wanted) {
      return node.get();
    }
  }
  return nodes_.empty() ? nullptr : nodes_.begin()->second.get();
}

std::vector<wire::SrpPortId> TargetService::targets() const {
  std::vector<wire::SrpPortId> ids;
  for (const auto& [extension, node] : nodes_) {
    ids.push_back(node->port_id());
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
  std::erase_if(removed_, [](const auto& node) { return node->target().channels() == 0; });
}

Error TargetService::gone_error() const {
  return {ErrorCode::NoSuchDevice,
          fmt::format("{} has gone: its sessions have ended", device_->name())};
}

void TargetService::handle_gone() {
  if (!options_.waits) {
    end_ = std::unexpected(gone_error());
    loop_.stop();  // as at a signal
    return;
  }
  device_->leave();
}

void TargetService::handle_quiet() {
  asio::post(loop_, [this] {
    if (ends_) {
      return;
    }
    const Error why = gone_error();
    device_.reset();
    wait_for_device(why);
  });
}

TargetReport TargetService::report() const {
  TargetReport report{.pid = getpid(),
                      .device = {},
                      .service_id = 0,
                      .portals = portals_,
                      .targets = {},
                      .shared = {}};
  if (device_ != nullptr) {
    report.device = device_->name();
    report.service_id = device_->service_id();
    report.shared = device_->shared_receives();
  }
  for (const auto& [extension, node] : nodes_) {
    report.targets.push_back(node->status());
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
  removed_.back()->leave([] {});
  if (device_ != nullptr) {
    device_->collect_later();
  } else {
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
  if (device_ != nullptr) {
    device_->tell_management();
  }
  fmt::print("reloaded\n");
  std::fflush(stdout);
}

}  // namespace weft::programs::srp
