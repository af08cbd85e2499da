#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "base/result.h"
#include "core/client.h"
#include "core/device.h"
#include "core/environment.h"

namespace weft::core {

/// How devices are seen from network namespaces (rdma system set netns).
enum class NamespaceMode : std::uint8_t { Shared, Exclusive };

/// Holds a registered device: its unregistration does not complete before the reference goes
/// (`ib_device_get_by_*`, `ib_device_put`).
class DeviceReference {
 public:
  DeviceReference() = default;
  DeviceReference(DeviceReference&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  DeviceReference& operator=(DeviceReference&& other) noexcept {
    std::swap(held_, other.held_);
    return *this;
  }
  DeviceReference(const DeviceReference&) = delete;
  DeviceReference& operator=(const DeviceReference&) = delete;
  ~DeviceReference() { reset(); }

  void reset();
  [[nodiscard]] Device* get() const { return held_; }
  Device* operator->() const { return held_; }
  Device& operator*() const { return *held_; }
  explicit operator bool() const { return held_ != nullptr; }
  /// For interfaces with plain pointers; adopt() takes it back.
  [[nodiscard]] Device* release() { return std::exchange(held_, nullptr); }
  [[nodiscard]] static DeviceReference adopt(Device* held) {
    DeviceReference reference;
    reference.held_ = held;
    return reference;
  }

 private:
  Device* held_{};
};

/// The devices and the clients of one host: what is global in a kernel. Any thread; callbacks are
/// made without locks. Whoever registers or unregisters waits for callbacks of others where the
/// guarantees below need it, and thus must not be called from a callback that it would wait for.
class Registry {
 public:
  explicit Registry(Environment& environment, NamespaceMode mode = NamespaceMode::Shared);
  /// All clients have left, and all devices; waits for unregistrations that are about to return.
  ~Registry();
  Registry(const Registry&) = delete;
  Registry& operator=(const Registry&) = delete;

  [[nodiscard]] Environment& environment() const { return environment_; }
  [[nodiscard]] NamespaceMode namespace_mode() const { return mode_; }
  /// Busy: devices are registered in another namespace than the initial one.
  Result<void> set_namespace_mode(NamespaceMode mode);

  // --- drivers
  /// The device belongs to the driver until deallocate_device(), or, with
  /// DeviceOperations::deallocate_driver, to the end of its unregistration.
  Device* allocate_device(DeviceInit init);
  /// One that is not registered (any more).
  void deallocate_device(Device& device);

  /// Names the device, reads its ports, and calls add of every client in the order of their
  /// registration. `name` may contain one %d, for the lowest number that gives a free name.
  /// NameTaken (ENFILE): the name is taken; InvalidArgument: no ports, or a table without
  /// mandatory operations. On failure the device is as it was before.
  Result<void> register_device(Device& device, std::string_view name);

  /// Calls remove of every client in the reverse order of registration, and waits until nobody
  /// holds the device. With deallocate_driver the device is freed on return (R-DEV-3). Does nothing
  /// if somebody else has done so.
  void unregister_device(Device& device);
  /// The same, and puts the caller's reference; by any number of threads at once: when one returns
  /// the device is unregistered (R-DEV-4).
  void unregister_device_and_put(DeviceReference device);
  /// The same later, on a work queue (R-DEV-5).
  void unregister_device_queued(Device& device);
  /// Unregisters all devices of a driver and waits until every unregistration of them, by whomever,
  /// has returned. Does not prevent new ones (R-DEV-6).
  void unregister_driver(std::uint32_t driver_id);

  Result<void> rename_device(Device& device, std::string_view name);

  // --- clients
  /// Calls add for every device that is there, before it returns; from then on for each new one.
  Result<void> register_client(Client& client);
  /// Calls remove for every device that is left. When it returns nothing of the client runs, or
  /// will (a fence).
  void unregister_client(Client& client);

  /// InvalidArgument outside the time between add and the end of remove (R-DEV-10).
  Result<void> set_client_data(Device& device, Client& client, void* data);
  /// Null where nothing was set.
  [[nodiscard]] void* client_data(const Device& device, const Client& client);

  // --- who looks for devices
  /// Empty: none, or one that is going (R-DEV-7). `net` null: from the initial namespace.
  [[nodiscard]] DeviceReference get_device_by_name(std::string_view name,
                                                   std::uint32_t driver_id = kUnknownDriver,
                                                   const NetNamespace* net = nullptr);
  [[nodiscard]] DeviceReference get_device_by_net_device(const NetDevice& net_device,
                                                         std::uint32_t driver_id = kUnknownDriver);
  [[nodiscard]] DeviceReference get_device_by_index(std::uint32_t index,
                                                    const NetNamespace* net = nullptr);
  /// Calls `visit` for each registered device that `net` may see, held meanwhile.
  void for_each_device(const NetNamespace* net, const std::function<void(Device&)>& visit);
  /// Calls `visit` for each port of a RoCE device with a net device (`ib_enum_roce_netdev`).
  void for_each_roce_net_device(const std::function<void(Device&, PortNumber, NetDevice&)>& visit);

  /// What devices and clients are there and who waits for whom, as text, for whoever looks into a
  /// process that does not end.
  [[nodiscard]] std::string describe() const;

 private:
  friend class DeviceReference;
  friend class Device;
  friend NetDeviceReference net_device_by_parameters(Device&, const NetDeviceParameters&);
  class QueuedUnregistration;

  Result<void> check_operations(Device& device);
  Result<void> assign_name(Device& device, std::string_view name);
  Result<void> read_device(Device& device);
  void do_unregister(Device& device, bool deallocates);
  void note_unregistration(std::uint32_t driver_id, int change);
  void hold_memory(Device& device);
  void put_memory(Device& device);
  void put(Device& device);
  [[nodiscard]] std::vector<DeviceReference> hold_all(const NetNamespace* net, bool all_namespaces);

  void add_all_clients_to(Device& device);
  void add_client_to(Device& device, Client& client);
  void finish_context(Device& device, Client& client);
  void remove_all_clients_from(Device& device);
  /// By its id, since somebody else may remove the client meanwhile, after whom it may be gone.
  void remove_client_from(Device& device, std::uint64_t id);
  /// Calls `visit` for each client that is active on the device, until it returns true.
  void for_each_context(Device& device, const std::function<bool(Client&, void*)>& visit);

  // With the lock.
  [[nodiscard]] Device* find_by_name(std::string_view name) const;
  [[nodiscard]] bool is_visible(const Device& device, const NetNamespace* net) const;
  [[nodiscard]] static bool try_hold(Device& device);
  [[nodiscard]] static bool begin_context(Device& device, Client& client);

  Environment& environment_;
  mutable PolicyLock lock_;
  NamespaceMode mode_;
  std::map<std::uint32_t, Device*> devices_;  // registered, by index
  std::map<std::uint64_t, Client*> clients_;  // by id: in the order of registration
  std::uint64_t next_client_id_{1};
  std::map<std::uint32_t, std::uint32_t> unregistrations_;  // under way, by driver id
};

}  // namespace weft::core
