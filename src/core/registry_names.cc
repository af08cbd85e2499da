// Names of devices, and who looks for devices by name, number or net device.

#include <fmt/format.h>

#include <mutex>
#include <string>
#include <vector>

#include "core/registry.h"

namespace weft::core {
namespace {

constexpr std::size_t kMostNameBytes = 63;  // IB_DEVICE_NAME_MAX, without the final zero
constexpr std::string_view kNumber = "%d";

Result<void> check_name(std::string_view name) {
  if (name.empty() || name.size() > kMostNameBytes) {
    return fail(ErrorCode::InvalidArgument, "a device's name has 1 to {} bytes, this has {}",
                kMostNameBytes, name.size());
  }
  if (name.find('/') != name.npos || name == "." || name == "..") {
    return fail(ErrorCode::InvalidArgument, "'{}' is no name of a folder, as a device's is", name);
  }
  const std::size_t percent = name.find('%');
  if (percent != name.npos && (name.substr(percent, kNumber.size()) != kNumber ||
                               name.find('%', percent + 1) != name.npos)) {
    return fail(ErrorCode::InvalidArgument, "the name '{}' may have one %d, and no other '%'",
                name);
  }
  return {};
}

}  // namespace

Device* Registry::find_by_name(std::string_view name) const {
  for (const auto& [index, device] : devices_) {
    if (device->name_ == name) {
      return device;
    }
  }
  return nullptr;
}

Result<void> Registry::assign_name(Device& device, std::string_view name) {
  if (auto checked = check_name(name); !checked) {
    return checked;
  }
  const std::lock_guard lock{lock_};
  if (device.state_ != Device::State::Allocated) {
    return fail(ErrorCode::InvalidArgument, "device {} was registered before", device.name_);
  }
  std::string chosen{name};
  if (const std::size_t at = name.find(kNumber); at != name.npos) {
    for (std::uint32_t number = 0; chosen == name || find_by_name(chosen) != nullptr; ++number) {
      chosen = fmt::format("{}{}{}", name.substr(0, at), number, name.substr(at + kNumber.size()));
    }
  } else if (find_by_name(name) != nullptr) {
    return fail(ErrorCode::NameTaken, "another device is named {}", name);
  }
  std::uint32_t index = 0;
  while (devices_.contains(index)) {
    ++index;
  }
  device.name_ = chosen;
  device.index_ = index;
  device.state_ = Device::State::Registering;
  devices_.emplace(index, &device);
  return {};
}

Result<void> Registry::rename_device(Device& device, std::string_view name) {
  if (auto checked = check_name(name); !checked) {
    return checked;
  }
  if (name.find('%') != name.npos) {
    return fail(ErrorCode::InvalidArgument, "a device is renamed to one name, not to a pattern");
  }
  {
    const std::lock_guard lock{lock_};
    if (device.state_ != Device::State::Registered) {
      return fail(ErrorCode::NoSuchDevice, "only a registered device is renamed");
    }
    if (const Device* const other = find_by_name(name); other != nullptr) {
      return other == &device ? Result<void>{}
                              : fail(ErrorCode::NameTaken, "another device is named {}", name);
    }
    device.name_ = name;
  }
  for_each_context(device, [&](Client& client, void* data) {
    client.rename(device, data);
    return false;
  });
  return {};
}

DeviceReference Registry::get_device_by_name(std::string_view name, std::uint32_t driver_id,
                                             const NetNamespace* net) {
  const std::lock_guard lock{lock_};
  Device* const found = find_by_name(name);
  if (found == nullptr ||
      (driver_id != kUnknownDriver && found->operations().driver_id != driver_id) ||
      !is_visible(*found, net) || !try_hold(*found)) {
    return {};
  }
  return DeviceReference::adopt(found);
}

DeviceReference Registry::get_device_by_index(std::uint32_t index, const NetNamespace* net) {
  const std::lock_guard lock{lock_};
  const auto found = devices_.find(index);
  if (found == devices_.end() || !is_visible(*found->second, net) || !try_hold(*found->second)) {
    return {};
  }
  return DeviceReference::adopt(found->second);
}

std::vector<DeviceReference> Registry::hold_all(const NetNamespace* net, bool all_namespaces) {
  std::vector<DeviceReference> held;
  const std::lock_guard lock{lock_};
  for (const auto& [index, device] : devices_) {
    if ((all_namespaces || is_visible(*device, net)) && try_hold(*device)) {
      held.push_back(DeviceReference::adopt(device));
    }
  }
  return held;
}

void Registry::for_each_device(const NetNamespace* net, const std::function<void(Device&)>& visit) {
  for (const DeviceReference& device : hold_all(net, false)) {
    visit(*device);
  }
}

void Registry::for_each_roce_net_device(
    const std::function<void(Device&, PortNumber, NetDevice&)>& visit) {
  for (const DeviceReference& device : hold_all(nullptr, true)) {
    for (unsigned number = device->first_port().value(); number <= device->last_port().value();
         ++number) {
      const PortNumber port{static_cast<std::uint8_t>(number)};
      if (!device->port_can(port, PortCapability::ProtocolRoce) &&
          !device->port_can(port, PortCapability::ProtocolRoceUdp)) {
        continue;
      }
      if (const NetDeviceReference found = device->net_device(port); found) {
        visit(*device, port, *found.get());
      }
    }
  }
}

DeviceReference Registry::get_device_by_net_device(const NetDevice& net_device,
                                                   std::uint32_t driver_id) {
  for (DeviceReference& device : hold_all(nullptr, true)) {
    if (driver_id != kUnknownDriver && device->operations().driver_id != driver_id) {
      continue;
    }
    for (unsigned number = device->first_port().value(); number <= device->last_port().value();
         ++number) {
      if (device->net_device(PortNumber{static_cast<std::uint8_t>(number)}).get() == &net_device) {
        return std::move(device);
      }
    }
  }
  return {};
}

bool Registry::is_visible(const Device& device, const NetNamespace* net) const {
  return mode_ == NamespaceMode::Shared || device.init_.net == net;
}

Result<void> Registry::set_namespace_mode(NamespaceMode mode) {
  const std::lock_guard lock{lock_};
  for (const auto& [index, device] : devices_) {
    if (device->init_.net != nullptr) {
      return fail(ErrorCode::Busy, "device {} is in namespace {}", device->name_,
                  device->init_.net->name);
    }
  }
  mode_ = mode;
  return {};
}

}  // namespace weft::core
