#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "base/lock.h"
#include "base/result.h"
#include "core/client.h"
#include "core/events.h"
#include "core/mad/mad_port.h"
#include "core/registry.h"

namespace weft::core {

/// The MAD layer of a host: QP0 and QP1 of every port whose device can (R-RVT-2's MAD agents). The
/// first client of its registry, so that it is there before its users and goes after them.
class MadService final : public Client {
 public:
  /// Registers itself; `carrier` outlives it.
  MadService(Registry& registry, MadCarrier& carrier);
  /// All clients that use it have left.
  ~MadService() override;

  [[nodiscard]] Registry& registry() const { return registry_; }
  [[nodiscard]] Environment& environment() const { return registry_.environment(); }
  /// Of all ports; what serves several of them needs it for its own state.
  [[nodiscard]] PolicyLock& lock() { return lock_; }

  /// InvalidArgument: the device has no such port; NoSuchDevice: the port has no such QP, or the
  /// device is going.
  [[nodiscard]] Result<MadPort*> port(Device& device, PortNumber number, mad::InterfaceKind kind);

  // --- Client
  Result<void> add(Device& device) override;
  void remove(Device& device, void* data) override;

 private:
  class DevicePorts;

  Registry& registry_;
  MadCarrier& carrier_;
  PolicyLock lock_;
};

}  // namespace weft::core
