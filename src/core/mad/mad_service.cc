#include "core/mad/mad_service.h"

#include <utility>

#include "core/device.h"

namespace weft::core {

/// The ports of one device. Requests without a destination go to the subnet manager, whose address
/// follows the port's events.
class MadService::DevicePorts final : public EventHandler {
 public:
  DevicePorts(MadService& service, Device& device) : EventHandler(device) {
    const unsigned last = device.last_port().value();
    for (unsigned number = device.first_port().value(); number <= last; ++number) {
      const PortNumber port{static_cast<std::uint8_t>(number)};
      Pair pair;
      if (device.port_can(port, PortCapability::Smi)) {
        pair.smi = std::make_unique<MadPort>(device, port, mad::InterfaceKind::Smi,
                                             service.carrier_, service.lock_);
      }
      if (device.port_can(port, PortCapability::Mad)) {
        pair.gsi = std::make_unique<MadPort>(device, port, mad::InterfaceKind::Gsi,
                                             service.carrier_, service.lock_);
        follow_subnet_manager(*pair.gsi);
      }
      ports_.push_back(std::move(pair));
    }
    register_event_handler(*this);
  }
  ~DevicePorts() override {
    unregister_event_handler(*this);
    for (const Pair& pair : ports_) {
      for (MadPort* const port : {pair.smi.get(), pair.gsi.get()}) {
        if (port != nullptr) {
          port->close();
        }
      }
    }
  }

  void handle(const Event& event) override {
    MadPort* const port = changes_port_tables(event.type) && device().has_port(event.port)
                              ? find(event.port, mad::InterfaceKind::Gsi)
                              : nullptr;
    if (port != nullptr) {
      follow_subnet_manager(*port);
    }
  }

  [[nodiscard]] MadPort* find(PortNumber port, mad::InterfaceKind kind) const {
    const Pair& pair = ports_[port.value() - device().first_port().value()];
    return kind == mad::InterfaceKind::Smi ? pair.smi.get() : pair.gsi.get();
  }

 private:
  struct Pair {
    std::unique_ptr<MadPort> smi;
    std::unique_ptr<MadPort> gsi;
  };

  static void follow_subnet_manager(MadPort& port) {
    const auto description = query_port(port.device(), port.number());
    if (!description) {
      return;  // as before: the driver tells again when the port has changed
    }
    port.with_interface([&](mad::ManagementInterface& interface, Instant) {
      interface.set_subnet_manager(description->sm_lid, description->sm_sl);
    });
  }

  std::vector<Pair> ports_;  // from the device's first port
};

MadService::MadService(Registry& registry, MadCarrier& carrier)
    : Client("mad", false),
      registry_(registry),
      carrier_(carrier),
      lock_(registry.environment().lock_policy()) {
  const auto registered = registry_.register_client(*this);
  WEFT_ASSERT(registered, "a client that refuses no device can be registered");
}

MadService::~MadService() { registry_.unregister_client(*this); }

Result<void> MadService::add(Device& device) {
  auto ports = std::make_unique<DevicePorts>(*this, device);
  if (auto set = registry_.set_client_data(device, *this, ports.get()); !set) {
    return set;
  }
  static_cast<void>(ports.release());  // remove() takes it back
  return {};
}

void MadService::remove(Device& /*device*/, void* data) {
  std::unique_ptr<DevicePorts>{static_cast<DevicePorts*>(data)}.reset();
}

Result<MadPort*> MadService::port(Device& device, PortNumber number, mad::InterfaceKind kind) {
  if (const auto known = device.check_port(number); !known) {
    return std::unexpected(known.error());
  }
  const auto* const ports = static_cast<const DevicePorts*>(registry_.client_data(device, *this));
  MadPort* const port = ports != nullptr ? ports->find(number, kind) : nullptr;
  if (port == nullptr) {
    return fail(ErrorCode::NoSuchDevice, "port {} of {} has no {}", number.value(), device.name(),
                kind == mad::InterfaceKind::Smi ? "QP0" : "QP1");
  }
  return port;
}

}  // namespace weft::core
