#include "programs/em/service.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <sys/signalfd.h>

#include <algorithm>
#include <csignal>
#include <set>
#include <vector>

#include "base/assert.h"
#include "os/clock.h"
#include "programs/em/report.h"

namespace weft::programs::em {

using opa_vnic::EthernetManager;
using opa_vnic::FabricPort;
using opa_vnic::SwitchConfig;

namespace {

// Policy.
constexpr Duration kBetweenLooks = Duration::seconds(1);
constexpr Duration kComesUpWithin = Duration::seconds(15);
constexpr Duration kBetweenCounters = Duration::seconds(2);

[[nodiscard]] std::uint64_t random_seed() {
  std::uint32_t seed = 0;
  WEFT_ASSERT(getrandom(&seed, sizeof seed, 0) == sizeof seed, "4 octets are never cut short");
  return seed;
}

}  // namespace

Result<std::unique_ptr<Service>> Service::start(SwitchesFile file, std::uint8_t trap_sl) {
  // Before libibverbs makes threads, which inherit it.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto control = Control::listen(kServiceName);
  if (!control) {
    return std::unexpected(std::move(control.error()));
  }
  std::unique_ptr<Service> service{
      new Service{std::move(file), trap_sl, *std::move(control)}
  };
  Service& made = *service;
  made.signals_ = os::UniqueFd{signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK)};
  auto port = vnic::OpaPort::open(vnic::OpaPort::Use::Manager,
                                  {.mad =
                                       [&made](const opa_vnic::VemaPeer& from, ByteSpan mad) {
                                         if (made.manager_) {
                                           made.manager_->handle_mad(from.lid, mad, os::now());
                                         }
                                       },
                                   .packet = [](ByteSpan) {},
                                   .changed = [&made] { made.has_changed_ = true; }});
  if (!port) {
    return std::unexpected(std::move(port.error()));
  }
  made.port_ = *std::move(port);
  return service;
}

Result<void> Service::run(const std::function<void()>& on_up) {
  const Instant up_until = os::now() + kComesUpWithin;
  while (true) {
    const Instant now = os::now();
    const auto has_more = work(now);
    if (!has_more) {
      return std::unexpected(has_more.error());
    }
    if (!has_told_ && config_.switches.size() == file_.switches.size()) {
      has_told_ = true;
      on_up();
    }
    if (!has_told_ && up_until <= now) {
      return fail(ErrorCode::TimedOut,
                  "there is no multicast group for a virtual switch: the port is not active, or no "
                  "subnet manager answers (weft status)");
    }
    if (auto flushed = port_->flush(); !flushed) {
      return flushed;
    }
    waits_.clear();
    waits_.add(signals_.get());
    port_->add_to(waits_);
    waits_.add(control_.descriptors());
    Instant until = std::min(port_->deadline(), next_look_);
    until = manager_ ? std::min(until, manager_->deadline()) : until;
    if (auto waited = waits_.wait(*has_more ? now : until); !waited) {
      return waited;
    }
    if (waits_.is_ready(signals_.get())) {
      return {};
    }
  }
}

Result<bool> Service::work(Instant now) {
  auto more = port_->work(waits_, now);
  if (!more) {
    return more;
  }
  if (now >= next_look_) {
    next_look_ = now + kBetweenLooks;
    port_->look_up(now);
  }
  if (std::exchange(has_changed_, false)) {
    follow_port(now);
    follow_config(now);
    follow_announced(now);
  }
  if (manager_) {
    manager_->handle_timeout(now);
    while (const auto next = manager_->poll_transmit()) {
      const auto packed = wire::pack(next->mad);
      port_->send_mad_to_agent(next->lid, {packed.begin(), packed.end()});
    }
  }
  control_.handle([this](std::string_view line) { return answer(line); });
  return more;
}

/// A manager has a LID, to which traps go; with another LID it is another manager.
void Service::follow_port(Instant now) {
  const Lid lid = port_->lid();
  if (port_->is_active() && lid != Lid{} && lid != lid_) {
    lid_ = lid;
    manager_ = std::make_unique<EthernetManager>(
        opa_vnic::ManagerAddress{
            .lid = lid.value(), .sl = trap_sl_, .pkey = port_->management_pkey()},
        random_seed(), opa_vnic::ManagerLimits{.interval = kBetweenCounters});
    manager_->set_config(config_, now);
    known_.clear();
  }
  std::set<vnic::FloodGroup> groups;
  for (const SwitchConfig& one : file_.switches) {
    groups.insert({.fabric_id = one.fabric_id, .vesw_id = one.vesw_id});
  }
  port_->set_groups(groups, now);
}

/// A switch is made as soon as its group has a LID, so that its ports are set up once.
void Service::follow_config(Instant now) {
  opa_vnic::ManagerConfig config;
  for (const SwitchConfig& one : file_.switches) {
    const auto mlid = port_->lid_of_group({.fabric_id = one.fabric_id, .vesw_id = one.vesw_id});
    const auto before = std::ranges::find(config_.switches, one.vesw_id, &SwitchConfig::vesw_id);
    if (mlid) {
      SwitchConfig made = one;
      made.multicast_dlid = mlid->value();
      made.default_dlids = {mlid->value()};  // frames for unknown stations are flooded
      config.switches.push_back(std::move(made));
    } else if (before != config_.switches.end()) {
      config.switches.push_back(*before);  // until it is known again
    }
  }
  if (manager_ && config != config_) {
    config_ = std::move(config);
    manager_->set_config(config_, now);
  }
}

void Service::follow_announced(Instant now) {
  if (!manager_ || known_ == port_->announced()) {
    return;
  }
  const auto ports_of = [&](const auto& keep) {
    std::vector<FabricPort> ports;
    for (const auto& [lid, one] : port_->announced()) {
      if (keep(one)) {  // also of hosts that are in no file any more: their ports are deleted
        ports.push_back(
            {.guid = guid_of_host(one.host), .lid = lid.value(), .has_ethernet_on_fabric = true});
      }
    }
    return ports;
  };
  // An agent that began anew knows nothing, though it has the LID of the one before.
  manager_->set_ports(ports_of([&](const vnic::Announcement& one) {
                        const auto known = known_.find(one.lid);
                        return known != known_.end() && known->second == one;
                      }),
                      now);
  known_ = port_->announced();
  manager_->set_ports(ports_of([](const vnic::Announcement&) { return true; }), now);
}

std::string Service::answer(std::string_view line) {
  const bool is_json = line == "show json";
  if (is_json || line == "show") {
    return manager_ ? show_switches(file_, config_, *manager_, is_json)
                    : "the port has no LID yet\n";
  }
  constexpr std::string_view kLoad = "load ";
  if (line.starts_with(kLoad)) {
    auto file = read_switches(std::string{line.substr(kLoad.size())});
    if (!file) {
      return "refused: " + file.error().reason + "\n";
    }
    file_ = *std::move(file);
    has_changed_ = true;
    next_look_ = os::now();
    return "loaded\n";
  }
  return "this is asked for show, or show json, or to load a file\n";
}

}  // namespace weft::programs::em
