#include "core/sa/sa_service.h"

#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "core/device.h"
#include "core/sa/sa_port.h"

namespace weft::core {

/// The SA clients of one device, which follow its events.
class SaService::DevicePorts final : public EventHandler {
 public:
  DevicePorts(SaService& service, Device& device) : EventHandler(device), service_(service) {
    const unsigned last = device.last_port().value();
    for (unsigned number = device.first_port().value(); number <= last; ++number) {
      const PortNumber port{static_cast<std::uint8_t>(number)};
      if (!device.port_can(port, PortCapability::Sa)) {
        continue;
      }
      if (const auto gsi = service.mads_.port(device, port, mad::InterfaceKind::Gsi)) {
        const auto made = ports_.emplace(port, std::make_unique<SaPort>(**gsi, service.limits_));
        service.add_port(*made.first->second);
      }
    }
    register_event_handler(*this);
  }
  ~DevicePorts() override {
    unregister_event_handler(*this);
    for (const auto& [number, port] : ports_) {
      service_.remove_port(*port);
    }
  }

  void handle(const Event& event) override {
    SaPort* const port = changes_port_tables(event.type) ? find(event.port) : nullptr;
    if (port != nullptr) {
      port->handle(event);
    }
  }

  [[nodiscard]] SaPort* find(PortNumber port) const {
    const auto found = ports_.find(port);
    return found != ports_.end() ? found->second.get() : nullptr;
  }

 private:
  SaService& service_;
  std::map<PortNumber, std::unique_ptr<SaPort>> ports_;
};

SaService::SaService(MadService& mads, const sa::SaClientLimits& limits)
    : Client("sa", false), mads_(mads), limits_(limits) {
  const auto registered = mads_.registry().register_client(*this);
  WEFT_ASSERT(registered, "a client that refuses no device can be registered");
}

SaService::~SaService() { mads_.registry().unregister_client(*this); }

void SaService::use_local_service(sa::LocalServiceLink& link,
                                  const sa::LocalServiceOptions& options) {
  const std::lock_guard lock{mads_.lock()};
  WEFT_ASSERT(!local_service_, "a host has one kernel side of its resolvers");
  local_service_.emplace(link, options);
  for (SaPort* const port : sa_ports_) {
    port->use_local_service(*local_service_);
  }
}

void SaService::add_port(SaPort& port) {
  const std::lock_guard lock{mads_.lock()};
  sa_ports_.push_back(&port);
  if (local_service_) {
    port.use_local_service(*local_service_);
  }
}

/// On return nobody lets the port go on any more.
void SaService::remove_port(SaPort& port) {
  {
    const std::lock_guard lock{mads_.lock()};
    std::erase(sa_ports_, &port);
  }
  mads_.environment().wait_until(
      [this] {
        const std::lock_guard lock{mads_.lock()};
        return receiving_ == 0;
      },
      Instant::never());
}

int SaService::receive(bool is_privileged, const wire::netlink::Message& message) {
  std::vector<SaPort*> ports;
  int error = 0;
  {
    const std::lock_guard lock{mads_.lock()};
    if (!local_service_) {
      return -EINVAL;
    }
    error = local_service_->receive(is_privileged, message, mads_.environment().now());
    ports = sa_ports_;
    ++receiving_;
  }
  // Any port's query may be over, or end at another time.
  for (SaPort* const port : ports) {
    port->with_client([](sa::SaClient&, Instant) {});
  }
  {
    const std::lock_guard lock{mads_.lock()};
    --receiving_;
  }
  mads_.environment().notify();
  return error;
}

sa::LocalServiceCounters SaService::local_service_counters() {
  const std::lock_guard lock{mads_.lock()};
  return local_service_ ? local_service_->counters() : sa::LocalServiceCounters{};
}

Result<void> SaService::add(Device& device) {
  auto ports = std::make_unique<DevicePorts>(*this, device);
  if (auto set = mads_.registry().set_client_data(device, *this, ports.get()); !set) {
    return set;
  }
  static_cast<void>(ports.release());  // remove() takes it back
  return {};
}

void SaService::remove(Device& /*device*/, void* data) {
  std::unique_ptr<DevicePorts>{static_cast<DevicePorts*>(data)}.reset();
}

Result<SaPort*> SaService::port(Device& device, PortNumber number) {
  if (const auto known = device.check_port(number); !known) {
    return std::unexpected(known.error());
  }
  const auto* const ports =
      static_cast<const DevicePorts*>(mads_.registry().client_data(device, *this));
  SaPort* const port = ports != nullptr ? ports->find(number) : nullptr;
  if (port == nullptr) {
    return fail(ErrorCode::NoSuchDevice, "port {} of {} has no SA client", number.value(),
                device.name());
  }
  return port;
}

}  // namespace weft::core
