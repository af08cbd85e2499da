#include "core/sa/sa_port.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/device.h"
#include "core/events.h"
#include "core/sa/sa_user.h"

namespace weft::core {
namespace {

/// The port with its tables as SA clients need them; its state is Down where the driver cannot say.
[[nodiscard]] sa::LocalPort local_port_of(Device& device, PortNumber number) {
  sa::LocalPort port;
  const auto description = query_port(device, number);
  if (!description) {
    return port;
  }
  port.state = description->state;
  port.lid = description->lid;
  port.lmc = description->lmc;
  port.sm_lid = description->sm_lid;
  port.sm_sl = description->sm_sl;
  port.max_mtu = description->max_mtu;
  port.active_mtu = description->active_mtu;
  const PortCache& cache = device.cache(number);
  for (std::uint32_t index = 0; index < cache.gid_table_length(); ++index) {
    if (const auto gid = cache.gid_at(index)) {
      port.gids.push_back((*gid)->gid());
    }
  }
  for (std::uint32_t index = 0; index < cache.pkey_table_length(); ++index) {
    if (const auto pkey = cache.pkey_at(index); pkey && pkey->value() != 0) {
      port.pkeys.push_back(*pkey);
    }
  }
  return port;
}

/// Events after which the SA may have forgotten what the port registered with it.
[[nodiscard]] bool asks_to_register_again(verbs::AsyncEventType type) {
  using enum verbs::AsyncEventType;
  return type == ClientReregister || type == SmChange || type == LidChange;
}

}  // namespace

SaPort::SaPort(MadPort& port, const sa::SaClientLimits& limits) : port_(port) {
  port_.with_interface([&](mad::ManagementInterface& interface, Instant) {
    client_.emplace(interface, limits);
    port_.add_engine(*this);
  });
  read_port();
}

SaPort::~SaPort() {
  port_.with_interface([&](mad::ManagementInterface&, Instant now) {
    client_->set_port({}, now);
    while (client_->deadline() <= now) {
      client_->handle_timeout(now);
    }
    for (const auto& [number, membership] : memberships_) {
      membership->lose_port();
    }
    port_.remove_engine(*this);
    client_.reset();
  });
}

void SaPort::use_local_service(sa::LocalService& service) {
  local_service_ = &service;
  client_->set_path_source(
      &service, {.device = std::string{port_.device().name()}, .number = port_.number().value()});
}

/// Whichever port of the host is first ends what has waited for too long for a resolver. The others
/// are due then, too, since none of them waits for longer than the first of all questions does.
void SaPort::handle_timeout(Instant now) {
  if (local_service_ != nullptr) {
    local_service_->handle_timeout(now);
  }
  client_->handle_timeout(now);
}

Instant SaPort::deadline() const {
  const Instant own = client_->deadline();
  return local_service_ == nullptr ? own : std::min(own, local_service_->deadline());
}

void SaPort::read_port() {
  sa::LocalPort port = local_port_of(port_.device(), port_.number());
  with_client([&](sa::SaClient& client, Instant now) {
    port.reregistrations = reregistrations_;
    client.set_port(port, now);
  });
}

void SaPort::handle(const Event& event) {
  if (asks_to_register_again(event.type)) {
    ++reregistrations_;  // only this thread, that of the device's events, writes it
  }
  read_port();
}

}  // namespace weft::core
