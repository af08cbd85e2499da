#include "core/sa/sa_service.h"

#include <map>
#include <memory>
#include <utility>

#include "core/device.h"
#include "core/sa/sa_port.h"

namespace weft::core {

/// The SA clients of one device, which follow its events.
class SaService::DevicePorts final : public EventHandler {
 public:
  DevicePorts(SaService& service, Device& device) : EventHandler(device) {
    const unsigned last = device.last_port().value();
    for (unsigned number = device.first_port().value(); number <= last; ++number) {
      const PortNumber port{static_cast<std::uint8_t>(number)};
      if (!device.port_can(port, PortCapability::Sa)) {
        continue;
      }
      if (const auto gsi = service.mads_.port(device, port, mad::InterfaceKind::Gsi)) {
        ports_.emplace(port, std::make_unique<SaPort>(**gsi, service.limits_));
      }
    }
    register_event_handler(*this);
  }
  ~DevicePorts() override { unregister_event_handler(*this); }

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
  std::map<PortNumber, std::unique_ptr<SaPort>> ports_;
};

SaService::SaService(MadService& mads, const sa::SaClientLimits& limits)
    : Client("sa", false), mads_(mads), limits_(limits) {
  const auto registered = mads_.registry().register_client(*this);
  WEFT_ASSERT(registered, "a client that refuses no device can be registered");
}

SaService::~SaService() { mads_.registry().unregister_client(*this); }

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
