#pragma once

// The IB CM of a host (IBTA vol 1 chapter 12) over the ports of its devices that can: one
// cm::ConnectionManager above their QP1s. A client of the registry behind the MadService.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "base/result.h"
#include "cm/connection_manager.h"
#include "core/client.h"
#include "core/mad/mad_port.h"
#include "core/mad/mad_service.h"

namespace weft::kernel {

/// Any thread. The manager is used with the lock of the host's ports held; its observers are called
/// so, and defer what they do.
class IbCmService final : public core::Client, private core::MadEngine {
 public:
  /// Registers itself; `mads` outlives it. `seed`: of communication ids, which nobody is to guess.
  IbCmService(core::MadService& mads, std::uint64_t seed);
  /// All ids are gone.
  ~IbCmService() override;

  /// Calls `function(manager, now)` with the ports locked, and lets these act. NoSuchDevice: the
  /// host has no port with a CM.
  template <class Function>
  auto with_manager(Function function)
      -> decltype(function(std::declval<cm::ConnectionManager&>(), Instant{})) {
    const std::vector<core::MadPort*> ports = all_ports();
    if (ports.empty()) {
      return fail(ErrorCode::NoSuchDevice, "no device of the host has a port with a CM");
    }
    auto result = ports.front()->with_interface(
        [&](mad::ManagementInterface&, Instant now) { return function(manager_, now); });
    for (core::MadPort* const port : ports) {
      port->with_interface([](mad::ManagementInterface&, Instant) {});  // it may have to send
    }
    return result;
  }

  [[nodiscard]] core::Environment& environment() const { return mads_.environment(); }

  // --- with the ports locked
  [[nodiscard]] cm::ConnectionManager& manager() { return manager_; }
  /// Calls `call` later without locks; a host that has no port any more drops it.
  void defer(core::MadUser& user, std::function<void()> call);
  /// Null: the port has gone.
  [[nodiscard]] core::MadPort* find(cm::PortKey port) const;

  // --- Client
  Result<void> add(core::Device& device) override;
  void remove(core::Device& device, void* data) override;

 private:
  class DevicePorts;

  void handle_timeout(Instant now) override { manager_.handle_timeout(now); }
  [[nodiscard]] Instant deadline() const override { return manager_.deadline(); }
  [[nodiscard]] std::vector<core::MadPort*> all_ports();

  core::MadService& mads_;
  cm::ConnectionManager manager_;  // under the ports' lock, as what follows
  std::map<cm::PortKey, core::MadPort*> ports_;
  std::uint32_t last_port_{};
};

}  // namespace weft::kernel
