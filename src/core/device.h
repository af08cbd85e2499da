#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/intrusive_list.h"
#include "base/lock.h"
#include "base/result.h"
#include "core/client.h"
#include "core/device_attributes.h"
#include "core/environment.h"
#include "core/events.h"
#include "core/net_device.h"
#include "core/operations.h"
#include "core/port_cache.h"
#include "core/resource.h"

namespace weft::core {

class Registry;
class EventQueue;

/// Any driver, where one is asked for (RDMA_DRIVER_UNKNOWN).
inline constexpr std::uint32_t kUnknownDriver = 0;

enum class NodeType : std::uint8_t { ChannelAdapter = 1, Switch, Router, Rnic };

/// What a driver says of a device when it allocates it; it may change it until the registration.
struct DeviceInit {
  DeviceOperations operations{};
  void* driver_data{};
  NodeType node_type{NodeType::ChannelAdapter};
  Guid node_guid{};
  std::string node_description{};
  std::uint8_t port_count{1};
  unsigned completion_vectors{1};
  const NetNamespace* net{};  ///< null: the initial one
  /// RDMA contexts use registered regions even where the device does not need them.
  bool forces_registration{};
};

/// An RDMA device (`struct ib_device`). Allocated by a driver, then registered (core/registry.h):
/// then clients see it. Everything here may be called from any thread while the device is held:
/// between a client's add and the end of its remove, with a DeviceReference, or by its driver.
class Device {
 public:
  Device(Registry& registry, DeviceInit init);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] Registry& registry() const { return registry_; }
  [[nodiscard]] Environment& environment() const;
  [[nodiscard]] const DeviceOperations& operations() const { return init_.operations; }
  /// Before registration only.
  [[nodiscard]] DeviceInit& init() { return init_; }
  [[nodiscard]] const DeviceInit& init() const { return init_; }
  void* driver_data() const { return init_.driver_data; }

  /// Empty before registration. A copy: the device may be renamed.
  [[nodiscard]] std::string name() const;
  /// Of all registered devices; the lowest free number at registration.
  [[nodiscard]] std::uint32_t index() const { return index_; }
  /// As query_device told it at registration.
  [[nodiscard]] const DeviceAttributes& attributes() const { return attributes_; }
  /// The driver offers all verbs that the stack's own users need.
  [[nodiscard]] bool has_kernel_verbs() const { return has_kernel_verbs_; }
  [[nodiscard]] unsigned completion_vectors() const { return init_.completion_vectors; }

  // --- ports
  [[nodiscard]] std::uint8_t port_count() const { return init_.port_count; }
  [[nodiscard]] PortNumber first_port() const {
    return PortNumber{static_cast<std::uint8_t>(init_.node_type == NodeType::Switch ? 0 : 1)};
  }
  [[nodiscard]] PortNumber last_port() const {
    return PortNumber{init_.node_type == NodeType::Switch ? std::uint8_t{0} : init_.port_count};
  }
  [[nodiscard]] bool has_port(PortNumber port) const {
    return port >= first_port() && port <= last_port();
  }
  [[nodiscard]] Result<void> check_port(PortNumber port) const;
  [[nodiscard]] const PortImmutable& immutable(PortNumber port) const;
  [[nodiscard]] PortCache& cache(PortNumber port);
  [[nodiscard]] LinkLayer link_layer(PortNumber port);
  [[nodiscard]] bool port_can(PortNumber port, PortCapability capability) const;

  /// The next completion vector in turn, of no bound (core/cq.h).
  [[nodiscard]] unsigned next_vector() {
    return next_vector_.fetch_add(1, std::memory_order_relaxed);
  }

  // --- net devices and namespaces
  /// One net device a port, null: none any more. InvalidArgument: no such port (R-DEV-14).
  Result<void> set_net_device(NetDevice* net_device, PortNumber port);
  [[nodiscard]] NetDeviceReference net_device(PortNumber port);
  /// Whether the device is for that namespace (R-DEV-13).
  [[nodiscard]] bool is_accessible_from(const NetNamespace* net) const;

  // --- objects
  [[nodiscard]] std::size_t resource_count(ResourceKind kind) const;
  void add_resource(Resource& resource);
  void remove_resource(Resource& resource);
  /// One line for each object that is there.
  [[nodiscard]] std::vector<std::string> left_resources();

  /// Locks of all objects of this device have this policy.
  [[nodiscard]] LockPolicy lock_policy() const;
  [[nodiscard]] std::uint32_t references() const {
    return references_.load(std::memory_order_acquire);
  }

 private:
  friend class Registry;
  friend class EventQueue;
  friend struct QpAccess;
  friend void dispatch_event(const Event& event);
  friend void register_event_handler(EventHandler& handler);
  friend void unregister_event_handler(EventHandler& handler);

  struct Port {
    PortImmutable immutable;
    std::unique_ptr<PortCache> cache;
    NetDeviceReference net_device;
  };
  enum class State : std::uint8_t {
    Allocated,
    Registering,
    Registered,
    Unregistering,
    Unregistered
  };
  enum class ContextState : std::uint8_t { Adding, Active, Removing };
  struct ClientContext {
    ContextState state{ContextState::Adding};
    void* data{};
    std::uint32_t users{};  // calls of the client for this device under way, but add and remove
  };

  Registry& registry_;
  DeviceInit init_;
  std::uint32_t index_{};
  DeviceAttributes attributes_;
  bool has_kernel_verbs_{};
  std::vector<Port> ports_;  // from first_port()
  std::atomic<unsigned> next_vector_{};
  mutable PolicyLock lock_;  // of what follows up to the next comment
  std::array<IntrusiveList<Resource, ResourceTag>, kResourceKinds> resources_;
  std::array<std::size_t, kResourceKinds> resource_counts_{};
  std::map<std::uint64_t, Qp*> qps_;  // by age
  std::uint64_t next_qp_age_{};
  // Under the registry's lock.
  std::string name_;
  State state_{State::Allocated};
  std::map<std::uint64_t, ClientContext> contexts_;  // by the client's id
  std::uint32_t memory_references_{1};               // 0: freed
  std::atomic<std::uint32_t> references_{};          // a registered device's own, and who holds it
  std::unique_ptr<EventQueue> events_;
};

/// Verbs of the device and its ports; each refuses a port that is none with InvalidArgument.
[[nodiscard]] Result<PortDescription> query_port(Device& device, PortNumber port);
Result<void> modify_device(Device& device, const DeviceModification& modification);
/// On RoCE, setting or clearing nothing but CM support succeeds without a driver (R-PORT-6).
Result<void> modify_port(Device& device, PortNumber port, const PortModification& modification);

/// The net device of a request to connect: each client that knows is asked. Held, or none; none on
/// ports that are not InfiniBand's (R-DEV-15).
[[nodiscard]] NetDeviceReference net_device_by_parameters(Device& device,
                                                          const NetDeviceParameters& parameters);

}  // namespace weft::core
