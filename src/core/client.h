#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <utility>

#include "base/identifiers.h"
#include "base/ip_address.h"
#include "base/keys.h"
#include "base/result.h"
#include "core/net_device.h"

namespace weft::core {

class Device;

/// What a request to connect arrived with, by which its net device is found.
struct NetDeviceParameters {
  PortNumber port{};
  PKey pkey{};
  const Gid* gid{};            ///< null: unknown
  const IpAddress* address{};  ///< the one that was asked for
};

/// Something that uses every RDMA device: an upper-layer protocol or a service of the core
/// (`struct ib_client`). Derived from, then registered (core/registry.h). For one client and one
/// device add() and remove() never overlap; the second comes only after the first succeeded. They
/// may sleep, and may call everything but register_client, unregister_client of the same client,
/// and the registration of devices.
class Client {
 public:
  /// `needs_kernel_verbs`: not told of devices that lack verbs which the stack's own users need
  /// (Device::has_kernel_verbs).
  explicit Client(std::string name, bool needs_kernel_verbs = true)
      : name_(std::move(name)), needs_kernel_verbs_(needs_kernel_verbs) {}
  virtual ~Client() = default;
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  /// A device is there. On failure this client hears no more of that device, and others do.
  virtual Result<void> add(Device& device) = 0;

  /// The device goes, or the client does. `data` is what set_client_data() has set last. On return
  /// the client uses nothing of the device.
  virtual void remove(Device& device, void* data) = 0;

  /// The device has another name now.
  virtual void rename(Device& /*device*/, void* /*data*/) {}

  /// The net device that a request with these parameters is for, if this client knows it.
  virtual NetDeviceReference net_device_of(Device& /*device*/,
                                           const NetDeviceParameters& /*parameters*/,
                                           void* /*data*/) {
    return {};
  }

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] bool needs_kernel_verbs() const { return needs_kernel_verbs_; }

 private:
  friend class Registry;
  std::string name_;
  bool needs_kernel_verbs_;
  // Under the registry's lock.
  std::uint64_t id_{};        // in the order of registration, from 1; 0: not registered
  std::uint32_t contexts_{};  // devices that it was added to or is being added to
  bool is_leaving_{};
};

}  // namespace weft::core
