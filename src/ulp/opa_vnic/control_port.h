#pragma once

// Virtual NICs of one Omni-Path device: the agents at its ports, and their virtual ports (R-VN-1,
// R-VN-2, R-VN-4, R-VN-12). Pure, not thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "ulp/opa_vnic/device.h"
#include "ulp/opa_vnic/vema_port.h"

namespace weft::opa_vnic {

class ControlPort {
 public:
  /// A new device (opa_vnic_vema_add_one): registers the agents, then announces to the fabric that
  /// Ethernet is carried. NotSupported: it cannot. `device` must outlive it.
  [[nodiscard]] static Result<std::unique_ptr<ControlPort>> add_one(Device& device,
                                                                    const TrapLimits& limits = {});
  /// The device goes (opa_vnic_vema_rem_one): withdraws what was announced; virtual ports go before
  /// the agents.
  ~ControlPort();
  ControlPort(const ControlPort&) = delete;
  ControlPort& operator=(const ControlPort&) = delete;

  /// opa_vnic_ctrl_config_dev: at every port; the first error.
  Result<void> config_dev(bool is_enabled);

  /// Null unless 1 <= number <= ports.
  [[nodiscard]] VemaPort* get_port(PortNumber number);
  /// Null if there is none (vema_get_vport_adapter).
  [[nodiscard]] VirtualPort* get_vport(const VirtualPortName& name);

  void handle_mad(PortNumber port, const VemaPeer& from, ByteSpan mad, Instant now);
  /// A 16B packet that an OPA port received.
  void handle_packet(PortNumber port, ByteSpan packet);
  /// PORT_ACTIVE or PORT_ERR.
  void handle_port_event(PortNumber port, bool is_active, Instant now);
  /// A frame of an interface.
  void transmit(const VirtualPortName& name, ByteSpan frame);

  void handle_timeout(Instant now);
  [[nodiscard]] Instant deadline() const;

 private:
  ControlPort(Device& device, const TrapLimits& limits);
  Result<void> register_agents();

  Device& device_;
  std::vector<VemaPort> ports_;
  std::size_t registered_{};
};

}  // namespace weft::opa_vnic
