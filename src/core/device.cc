#include "core/device.h"

#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "base/assert.h"
#include "core/event_queue.h"
#include "core/registry.h"

namespace weft::core {

Device::Device(Registry& registry, DeviceInit init)
    : registry_(registry),
      init_(std::move(init)),
      lock_(registry.environment().lock_policy()),
      events_(std::make_unique<EventQueue>(*this)) {}

Device::~Device() {
  WEFT_ASSERT(!events_->has_handlers(), "event handlers are unregistered before their device goes");
}

Environment& Device::environment() const { return registry_.environment(); }

LockPolicy Device::lock_policy() const { return registry_.environment().lock_policy(); }

std::string Device::name() const {
  const std::lock_guard lock{registry_.lock_};
  return name_;
}

Result<void> Device::check_port(PortNumber port) const {
  if (!has_port(port)) {
    return fail(ErrorCode::InvalidArgument, "port {} is not in {}..{} of device {}", port.value(),
                first_port().value(), last_port().value(), name());
  }
  return {};
}

const PortImmutable& Device::immutable(PortNumber port) const {
  WEFT_ASSERT(has_port(port), "the port was checked");
  return ports_[port.value() - first_port().value()].immutable;
}

PortCache& Device::cache(PortNumber port) {
  WEFT_ASSERT(has_port(port), "the port was checked");
  return *ports_[port.value() - first_port().value()].cache;
}

bool Device::port_can(PortNumber port, PortCapability capability) const {
  return has_port(port) && immutable(port).capabilities.has(capability);
}

LinkLayer Device::link_layer(PortNumber port) {
  if (operations().get_link_layer != nullptr) {
    return operations().get_link_layer(*this, port);
  }
  if (port_can(port, PortCapability::ProtocolIb)) {
    return LinkLayer::Infiniband;
  }
  const bool is_ethernet = port_can(port, PortCapability::ProtocolRoce) ||
                           port_can(port, PortCapability::ProtocolRoceUdp) ||
                           port_can(port, PortCapability::ProtocolIwarp);
  return is_ethernet ? LinkLayer::Ethernet : LinkLayer::Unspecified;
}

Result<void> Device::set_net_device(NetDevice* net_device, PortNumber port) {
  if (auto known = check_port(port); !known) {
    return known;
  }
  if (ports_.empty()) {
    return fail(ErrorCode::InvalidArgument, "the device has not read its ports yet");
  }
  NetDeviceReference replaced{net_device};  // what it was is put after the lock is released
  const std::lock_guard lock{lock_};
  std::swap(ports_[port.value() - first_port().value()].net_device, replaced);
  return {};
}

NetDeviceReference Device::net_device(PortNumber port) {
  if (!has_port(port) || ports_.empty()) {
    return {};
  }
  if (operations().get_net_device != nullptr) {
    return operations().get_net_device(*this, port);
  }
  const std::lock_guard lock{lock_};
  return ports_[port.value() - first_port().value()].net_device;
}

bool Device::is_accessible_from(const NetNamespace* net) const {
  return registry_.namespace_mode() == NamespaceMode::Shared || net == init_.net;
}

std::size_t Device::resource_count(ResourceKind kind) const {
  const std::lock_guard lock{lock_};
  return resource_counts_[std::to_underlying(kind)];
}

void Device::add_resource(Resource& resource) {
  const std::lock_guard lock{lock_};
  resources_[std::to_underlying(resource.kind())].push_back(resource);
  ++resource_counts_[std::to_underlying(resource.kind())];
}

void Device::remove_resource(Resource& resource) {
  const std::lock_guard lock{lock_};
  IntrusiveList<Resource, ResourceTag>::remove(resource);
  --resource_counts_[std::to_underlying(resource.kind())];
}

std::vector<std::string> Device::left_resources() {
  std::vector<std::string> lines;
  const std::lock_guard lock{lock_};
  for (auto& list : resources_) {
    list.for_each([&](Resource& resource) {
      lines.push_back(
          fmt::format("a {} of {} is left", core::name_of(resource.kind()), resource.caller()));
    });
  }
  return lines;
}

Result<PortDescription> query_port(Device& device, PortNumber port) {
  if (const auto known = device.check_port(port); !known) {
    return std::unexpected(known.error());
  }
  auto description = device.operations().query_port(device, port);
  if (description && device.link_layer(port) == LinkLayer::Infiniband) {
    if (const auto gid = query_gid(device, port, 0); gid) {
      description->subnet_prefix = gid->prefix();
    }
  }
  return description;
}

Result<void> modify_device(Device& device, const DeviceModification& modification) {
  if (device.operations().modify_device == nullptr) {
    return fail(ErrorCode::NotSupported, "the driver of {} changes nothing of a device",
                device.name());
  }
  constexpr std::size_t kMostBytes = 64;  // NodeDescription, IBTA vol 1 §14.2.5.2
  if (modification.node_description.size() > kMostBytes) {
    return fail(ErrorCode::InvalidArgument, "a node description has at most {} bytes, this has {}",
                kMostBytes, modification.node_description.size());
  }
  return device.operations().modify_device(device, modification);
}

Result<void> modify_port(Device& device, PortNumber port, const PortModification& modification) {
  constexpr std::uint32_t kCmSupported = 1U << 16;  // IsCommunicationManagementSupported
  if (auto known = device.check_port(port); !known) {
    return known;
  }
  if (device.operations().modify_port != nullptr) {
    return device.operations().modify_port(device, port, modification);
  }
  const bool is_roce = device.port_can(port, PortCapability::ProtocolRoce) ||
                       device.port_can(port, PortCapability::ProtocolRoceUdp);
  const std::uint32_t changed = modification.set_capabilities | modification.clear_capabilities;
  if (is_roce && (changed & ~kCmSupported) == 0) {
    return {};
  }
  return fail(ErrorCode::NotSupported, "the driver of {} changes nothing of a port", device.name());
}

}  // namespace weft::core
