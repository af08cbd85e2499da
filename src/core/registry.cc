#include "core/registry.h"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <utility>
#include <vector>

#include "base/assert.h"
#include "core/event_queue.h"

namespace weft::core {

void DeviceReference::reset() {
  if (Device* const held = std::exchange(held_, nullptr); held != nullptr) {
    held->registry().put(*held);
  }
}

Registry::Registry(Environment& environment, NamespaceMode mode)
    : environment_(environment), lock_(environment.lock_policy()), mode_(mode) {}

Registry::~Registry() {
  environment_.wait_until(  // those on a work queue have a last look at their number
      [this] {
        const std::lock_guard lock{lock_};
        return unregistrations_.empty();
      },
      Instant::never());
  WEFT_ASSERT(clients_.empty(), "clients are unregistered before the registry goes");
  WEFT_ASSERT(devices_.empty(), "devices are unregistered before the registry goes");
}

Device* Registry::allocate_device(DeviceInit init) {
  return std::make_unique<Device>(*this, std::move(init)).release();
}

void Registry::deallocate_device(Device& device) {
  {
    const std::lock_guard lock{lock_};
    WEFT_ASSERT(
        device.state_ == Device::State::Allocated || device.state_ == Device::State::Unregistered,
        "a device is unregistered before it is deallocated");
  }
  put_memory(device);
}

Result<void> Registry::register_device(Device& device, std::string_view name) {
  if (auto checked = check_operations(device); !checked) {
    return checked;
  }
  hold_memory(device);  // somebody may unregister it meanwhile
  const auto undo = [&](const Error& error) -> Result<void> {
    {
      const std::lock_guard lock{lock_};
      if (const auto own = devices_.find(device.index_);
          own != devices_.end() && own->second == &device) {  // else the number is another's by now
        devices_.erase(own);
      }
      device.state_ = Device::State::Allocated;
      device.name_.clear();
    }
    put_memory(device);
    return std::unexpected(error);
  };
  if (const auto named = assign_name(device, name); !named) {
    put_memory(device);
    return named;
  }
  if (const auto read = read_device(device); !read) {
    return undo(read.error());
  }
  {
    const std::lock_guard lock{lock_};
    device.state_ = Device::State::Registered;
    device.references_.store(2, std::memory_order_release);  // its own and this call's
  }
  if (device.operations().enable_driver != nullptr) {
    if (const auto enabled = device.operations().enable_driver(device); !enabled) {
      put(device);
      do_unregister(device, false);
      return undo(enabled.error());
    }
  }
  add_all_clients_to(device);
  put(device);
  put_memory(device);
  return {};
}

Result<void> Registry::read_device(Device& device) {
  const auto attributes = device.operations().query_device(device);
  if (!attributes) {
    return std::unexpected(attributes.error());
  }
  device.attributes_ = *attributes;
  std::vector<Device::Port> ports;
  for (unsigned number = device.first_port().value(); number <= device.last_port().value();
       ++number) {
    const PortNumber port{static_cast<std::uint8_t>(number)};
    const auto immutable = device.operations().get_port_immutable(device, port);
    if (!immutable) {
      return std::unexpected(immutable.error());
    }
    ports.push_back({.immutable = *immutable, .cache = {}, .net_device = {}});
  }
  device.ports_ = std::move(ports);
  for (unsigned number = device.first_port().value(); number <= device.last_port().value();
       ++number) {
    const PortNumber port{static_cast<std::uint8_t>(number)};
    auto cache = std::make_unique<PortCache>(device, port, environment_.lock_policy());
    PortCache& made = *cache;
    device.ports_[number - device.first_port().value()].cache = std::move(cache);
    if (auto refreshed = made.refresh(); !refreshed) {
      return refreshed;
    }
  }
  return {};
}

void Registry::unregister_device(Device& device) {
  hold_memory(device);
  note_unregistration(device.operations().driver_id, 1);
  const std::uint32_t driver_id = device.operations().driver_id;
  do_unregister(device, true);
  put_memory(device);
  note_unregistration(driver_id, -1);
}

void Registry::unregister_device_and_put(DeviceReference reference) {
  Device& device = *reference;
  WEFT_ASSERT(device.operations().deallocate_driver != nullptr,
              "a driver whose devices others may unregister cleans up when it is told to");
  hold_memory(device);
  const std::uint32_t driver_id = device.operations().driver_id;
  note_unregistration(driver_id, 1);
  reference.reset();  // or this call would wait for itself
  do_unregister(device, true);
  put_memory(device);
  note_unregistration(driver_id, -1);
}

/// An unregistration on its way through a work queue. It owns itself.
class Registry::QueuedUnregistration final : public Task {
 public:
  QueuedUnregistration(Registry& registry, Device& device) : registry_(registry), device_(device) {}
  void run() override {
    const std::unique_ptr<QueuedUnregistration> self{this};
    const std::uint32_t driver_id = device_.operations().driver_id;
    registry_.do_unregister(device_, true);
    registry_.put_memory(device_);
    registry_.note_unregistration(driver_id, -1);
  }

 private:
  Registry& registry_;
  Device& device_;
};

void Registry::unregister_device_queued(Device& device) {
  WEFT_ASSERT(device.operations().deallocate_driver != nullptr,
              "a driver whose devices others may unregister cleans up when it is told to");
  hold_memory(device);
  note_unregistration(device.operations().driver_id, 1);
  auto task = std::make_unique<QueuedUnregistration>(*this, device);
  environment_.post(*task.release(), WorkContext::UnboundWorkQueue, 0, {});
}

void Registry::unregister_driver(std::uint32_t driver_id) {
  std::vector<Device*> devices;
  {
    const std::lock_guard lock{lock_};
    for (const auto& [index, device] : devices_) {
      if (device->operations().driver_id == driver_id) {
        WEFT_ASSERT(device->operations().deallocate_driver != nullptr,
                    "a driver whose devices others may unregister cleans up when it is told to");
        ++device->memory_references_;
        devices.push_back(device);
      }
    }
  }
  for (Device* const device : devices) {
    do_unregister(*device, true);
    put_memory(*device);
  }
  environment_.wait_until(
      [&] {
        const std::lock_guard lock{lock_};
        return !unregistrations_.contains(driver_id);
      },
      Instant::never());
}

void Registry::do_unregister(Device& device, bool deallocates) {
  bool is_mine = false;
  environment_.wait_until(
      [&] {
        const std::lock_guard lock{lock_};
        if (device.state_ == Device::State::Registered) {
          device.state_ = Device::State::Unregistering;
          is_mine = true;
        }
        return is_mine || device.state_ == Device::State::Allocated ||
               device.state_ == Device::State::Unregistered;
      },
      Instant::never());
  if (!is_mine) {
    return;
  }
  remove_all_clients_from(device);
  put(device);
  environment_.wait_until([&] { return device.references() == 0; }, Instant::never());
  device.events_->flush();
  for (const std::string& line : device.left_resources()) {
    environment_.log(LogLevel::Error, fmt::format("{} is unregistered: {}", device.name(), line));
  }
  for (Device::Port& port : device.ports_) {
    port.cache->clear();
    port.net_device = {};
  }
  if (deallocates && device.operations().deallocate_driver != nullptr) {
    device.operations().deallocate_driver(device);
  }
  bool frees = false;
  {
    const std::lock_guard lock{lock_};
    devices_.erase(device.index_);
    device.state_ = Device::State::Unregistered;
    frees = deallocates && device.operations().deallocate_driver != nullptr;
  }
  if (frees) {
    put_memory(device);
  }
  environment_.notify();
}

void Registry::note_unregistration(std::uint32_t driver_id, int change) {
  Environment& environment = environment_;  // the registry may go when the last is noted
  {
    const std::lock_guard lock{lock_};
    std::uint32_t& count = unregistrations_[driver_id];
    count = static_cast<std::uint32_t>(static_cast<int>(count) + change);
    if (count == 0) {
      unregistrations_.erase(driver_id);
    }
  }
  environment.notify();
}

void Registry::hold_memory(Device& device) {
  const std::lock_guard lock{lock_};
  ++device.memory_references_;
}

void Registry::put_memory(Device& device) {
  {
    const std::lock_guard lock{lock_};
    if (--device.memory_references_ != 0) {
      return;
    }
  }
  std::unique_ptr<Device>{&device}.reset();
}

bool Registry::try_hold(Device& device) {
  if (device.state_ != Device::State::Registered) {
    return false;
  }
  device.references_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void Registry::put(Device& device) {
  Environment& environment = environment_;
  if (device.references_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    environment.notify();
  }
}

}  // namespace weft::core
