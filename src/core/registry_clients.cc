// Clients of devices: who is told of whom, in which order, and who waits for it.

#include <fmt/format.h>

#include <mutex>
#include <ranges>
#include <string>
#include <utility>

#include "base/assert.h"
#include "core/registry.h"

namespace weft::core {

Result<void> Registry::check_operations(Device& device) {
  const MissingOperations missing = missing_operations(device.operations());
  if (!missing.mandatory.empty()) {
    return fail(ErrorCode::InvalidArgument, "the driver does not offer {}",
                fmt::join(missing.mandatory, ", "));
  }
  if (device.init().port_count == 0 && device.init().node_type != NodeType::Switch) {
    return fail(ErrorCode::InvalidArgument, "a device has at least one port");
  }
  if (device.init().completion_vectors == 0) {
    return fail(ErrorCode::InvalidArgument, "a device has at least one completion vector");
  }
  device.has_kernel_verbs_ = missing.kernel_verbs.empty();
  return {};
}

Result<void> Registry::register_client(Client& client) {
  {
    const std::lock_guard lock{lock_};
    if (client.id_ != 0) {
      return fail(ErrorCode::InvalidArgument, "client {} is registered already", client.name());
    }
    client.id_ = next_client_id_++;
    client.is_leaving_ = false;
    clients_.emplace(client.id_, &client);
  }
  for (const DeviceReference& device : hold_all(nullptr, true)) {
    add_client_to(*device, client);
  }
  return {};
}

void Registry::unregister_client(Client& client) {
  std::uint64_t id = 0;
  {
    const std::lock_guard lock{lock_};
    WEFT_ASSERT(client.id_ != 0, "the client is registered");
    id = client.id_;
    client.is_leaving_ = true;
  }
  for (const DeviceReference& device : hold_all(nullptr, true)) {
    remove_client_from(*device, id);
  }
  // Devices that are going remove it themselves.
  environment_.wait_until(
      [&] {
        const std::lock_guard lock{lock_};
        return client.contexts_ == 0;
      },
      Instant::never());
  const std::lock_guard lock{lock_};
  clients_.erase(client.id_);
  client.id_ = 0;
}

void Registry::add_all_clients_to(Device& device) {
  std::uint64_t last = 0;
  for (;;) {
    Client* client = nullptr;
    {
      const std::lock_guard lock{lock_};
      const auto next = clients_.upper_bound(last);
      if (next == clients_.end() || device.state_ != Device::State::Registered) {
        return;
      }
      last = next->first;
      client = next->second;
      if (!begin_context(device, *client)) {
        continue;
      }
    }
    finish_context(device, *client);
  }
}

void Registry::add_client_to(Device& device, Client& client) {
  bool begins = false;
  {
    const std::lock_guard lock{lock_};
    begins = begin_context(device, client);
  }
  if (begins) {
    finish_context(device, client);
    return;
  }
  // Whoever registers the device may be adding this client just now.
  const std::uint64_t id = client.id_;
  environment_.wait_until(
      [&] {
        const std::lock_guard lock{lock_};
        const auto context = device.contexts_.find(id);
        return context == device.contexts_.end() ||
               context->second.state != Device::ContextState::Adding;
      },
      Instant::never());
}

bool Registry::begin_context(Device& device, Client& client) {
  if (device.state_ != Device::State::Registered || client.is_leaving_ ||
      (client.needs_kernel_verbs() && !device.has_kernel_verbs()) ||
      !device.contexts_.try_emplace(client.id_).second) {
    return false;
  }
  ++client.contexts_;
  return true;
}

void Registry::finish_context(Device& device, Client& client) {
  const auto added = client.add(device);
  if (!added) {
    environment_.log(LogLevel::Info, fmt::format("client {} does not use {}: {}", client.name(),
                                                 device.name(), added.error().reason));
  }
  {
    const std::lock_guard lock{lock_};
    if (added) {
      device.contexts_.at(client.id_).state = Device::ContextState::Active;
    } else {
      device.contexts_.erase(client.id_);
      --client.contexts_;
    }
  }
  environment_.notify();
}

void Registry::remove_client_from(Device& device, std::uint64_t id) {
  Client* client = nullptr;  // while this call removes it, which keeps it registered
  void* data = nullptr;
  environment_.wait_until(
      [&] {
        const std::lock_guard lock{lock_};
        const auto found = device.contexts_.find(id);
        if (found == device.contexts_.end()) {
          return true;
        }
        if (found->second.state == Device::ContextState::Active) {
          found->second.state = Device::ContextState::Removing;
          client = clients_.at(id);
        }
        data = found->second.data;
        return client != nullptr && found->second.users == 0;
      },
      Instant::never());
  if (client == nullptr) {
    return;  // somebody else has removed it, and it may be gone
  }
  client->remove(device, data);
  {
    const std::lock_guard lock{lock_};
    device.contexts_.erase(id);
    --client->contexts_;
  }
  environment_.notify();
}

void Registry::remove_all_clients_from(Device& device) {
  for (;;) {
    std::uint64_t last = 0;
    {
      const std::lock_guard lock{lock_};
      if (device.contexts_.empty()) {
        return;
      }
      last = device.contexts_.rbegin()->first;
    }
    remove_client_from(device, last);
  }
}

Result<void> Registry::set_client_data(Device& device, Client& client, void* data) {
  const std::lock_guard lock{lock_};
  const auto context = device.contexts_.find(client.id_);
  if (client.id_ == 0 || context == device.contexts_.end()) {
    return fail(ErrorCode::InvalidArgument, "client {} is not on device {}: not yet, or no more",
                client.name(), device.name_);
  }
  context->second.data = data;
  return {};
}

void* Registry::client_data(const Device& device, const Client& client) {
  const std::lock_guard lock{lock_};
  const auto context = device.contexts_.find(client.id_);
  return context == device.contexts_.end() ? nullptr : context->second.data;
}

void Registry::for_each_context(Device& device, const std::function<bool(Client&, void*)>& visit) {
  std::uint64_t last = 0;
  for (bool is_done = false; !is_done;) {
    Client* client = nullptr;
    void* data = nullptr;
    {
      const std::lock_guard lock{lock_};
      auto next = device.contexts_.upper_bound(last);
      while (next != device.contexts_.end() && next->second.state != Device::ContextState::Active) {
        ++next;
      }
      if (next == device.contexts_.end()) {
        return;
      }
      last = next->first;
      client = clients_.at(last);
      data = next->second.data;
      ++next->second.users;
    }
    is_done = visit(*client, data);
    {
      const std::lock_guard lock{lock_};
      --device.contexts_.at(last).users;
    }
    environment_.notify();
  }
}

NetDeviceReference net_device_by_parameters(Device& device, const NetDeviceParameters& parameters) {
  NetDeviceReference found;
  if (device.port_can(parameters.port, PortCapability::ProtocolIb)) {
    device.registry().for_each_context(device, [&](Client& client, void* data) {
      found = client.net_device_of(device, parameters, data);
      return static_cast<bool>(found);
    });
  }
  return found;
}

std::string Registry::describe() const {
  constexpr auto kStates = std::to_array<std::string_view>(
      {"allocated", "registering", "registered", "unregistering", "unregistered"});
  constexpr auto kContextStates = std::to_array<std::string_view>({"adding", "active", "removing"});
  std::string text;
  const std::lock_guard lock{lock_};
  for (const auto& [index, device] : devices_) {
    text += fmt::format("{}: {}, driver {}, {} references\n", device->name_,
                        kStates[std::to_underlying(device->state_)], device->operations().driver_id,
                        device->references());
    for (const auto& [id, context] : device->contexts_) {
      text += fmt::format("  client {}: {}, {} calls under way\n", clients_.at(id)->name(),
                          kContextStates[std::to_underlying(context.state)], context.users);
    }
  }
  return text;
}

}  // namespace weft::core
