#include "kernel/ib_cm_service.h"

#include <mutex>
#include <utility>

#include "base/assert.h"
#include "core/device.h"
#include "core/events.h"

namespace weft::kernel {
namespace {

/// The port as the CM says of it; its state is Down where the driver cannot say.
[[nodiscard]] cm::PortAddress address_of(core::Device& device, PortNumber number) {
  cm::PortAddress address;
  address.number = number;
  address.ca_guid = device.attributes().node_guid;
  address.ack_delay = device.attributes().local_ca_ack_delay;
  if (const auto description = core::query_port(device, number)) {
    address.state = description->state;
    address.lid = description->lid;
    address.lmc = description->lmc;
    address.sm_lid = description->sm_lid;
    address.sm_sl = description->sm_sl;
    address.max_mtu = description->max_mtu;
    address.active_mtu = description->active_mtu;
  }
  const core::PortCache& cache = device.cache(number);
  for (std::uint32_t index = 0; index < cache.gid_table_length(); ++index) {
    if (const auto gid = cache.gid_at(index)) {
      address.gids.push_back((*gid)->gid());
    }
  }
  for (std::uint32_t index = 0; index < cache.pkey_table_length(); ++index) {
    address.pkeys.push_back(cache.pkey_at(index).value_or(PKey{}));
  }
  return address;
}

}  // namespace

/// The ports of one device, which follow its events.
class IbCmService::DevicePorts final : public core::EventHandler {
 public:
  DevicePorts(IbCmService& service, core::Device& device)
      : EventHandler(device), service_(service) {
    const unsigned last = device.last_port().value();
    for (unsigned number = device.first_port().value(); number <= last; ++number) {
      const PortNumber port{static_cast<std::uint8_t>(number)};
      if (!device.port_can(port, core::PortCapability::IbCm)) {
        continue;
      }
      if (const auto gsi = service.mads_.port(device, port, mad::InterfaceKind::Gsi)) {
        open(**gsi);
      }
    }
    register_event_handler(*this);
  }
  ~DevicePorts() override {
    unregister_event_handler(*this);
    for (const auto& [number, key] : keys_) {
      core::MadPort& port = *service_.mads_.port(device(), number, mad::InterfaceKind::Gsi).value();
      port.with_interface([&](mad::ManagementInterface&, Instant now) {
        static_cast<void>(service_.manager_.remove_port(key, now));
        port.remove_engine(service_);
        service_.ports_.erase(key);
      });
    }
  }

  void handle(const core::Event& event) override {
    const auto found = keys_.find(event.port);
    if (found == keys_.end() || !core::changes_port_tables(event.type)) {
      return;
    }
    const cm::PortAddress address = address_of(device(), event.port);
    static_cast<void>(service_.with_manager([&](cm::ConnectionManager& manager, Instant) {
      return manager.update_port(found->second, address);
    }));
  }

 private:
  void open(core::MadPort& port) {
    const cm::PortAddress address = address_of(device(), port.number());
    port.with_interface([&](mad::ManagementInterface& interface, Instant) {
      const cm::PortKey key{++service_.last_port_};
      if (service_.manager_.add_port(key, interface, address)) {
        service_.ports_.emplace(key, &port);
        port.add_engine(service_);
        keys_.emplace(port.number(), key);
      }
    });
  }

  IbCmService& service_;
  std::map<PortNumber, cm::PortKey> keys_;
};

IbCmService::IbCmService(core::MadService& mads, std::uint64_t seed)
    : Client("ib_cm", false), mads_(mads), manager_({.seed = seed}) {
  const auto registered = mads_.registry().register_client(*this);
  WEFT_ASSERT(registered, "a client that refuses no device can be registered");
}

IbCmService::~IbCmService() { mads_.registry().unregister_client(*this); }

Result<void> IbCmService::add(core::Device& device) {
  auto ports = std::make_unique<DevicePorts>(*this, device);
  if (auto set = mads_.registry().set_client_data(device, *this, ports.get()); !set) {
    return set;
  }
  static_cast<void>(ports.release());  // remove() takes it back
  return {};
}

void IbCmService::remove(core::Device& /*device*/, void* data) {
  std::unique_ptr<DevicePorts>{static_cast<DevicePorts*>(data)}.reset();
}

std::vector<core::MadPort*> IbCmService::all_ports() {
  const std::lock_guard lock{mads_.lock()};
  std::vector<core::MadPort*> ports;
  for (const auto& [key, port] : ports_) {
    ports.push_back(port);
  }
  return ports;
}

void IbCmService::defer(core::MadUser& user, std::function<void()> call) {
  if (!ports_.empty()) {
    ports_.begin()->second->defer(user, std::move(call));
  }
}

core::MadPort* IbCmService::find(cm::PortKey port) const {
  const auto found = ports_.find(port);
  return found != ports_.end() ? found->second : nullptr;
}

}  // namespace weft::kernel
