#pragma once

// What an Omni-Path device does for virtual NICs; whoever drives the room implements it. A device
// must not call back into the control port from inside of a call.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "ulp/opa_vnic/virtual_port.h"
#include "wire/mac_address.h"
#include "wire/opa/vema_mad.h"

namespace weft::opa_vnic {

/// Whom a MAD comes from or goes to.
struct VemaPeer {
  Lid lid{};
  Qpn qp{kQp1};
  ServiceLevel sl{};
  PKey pkey{kDefaultPKey};
  bool operator==(const VemaPeer&) const = default;
};

/// The agent that is registered at the general services interface of each port (R-VN-2).
struct AgentRegistration {
  wire::ManagementClass mgmt_class{wire::kVemaClass};
  std::uint8_t class_version{wire::kOpaMadVersion};
  std::uint32_t oui{wire::kVemaOui};
  std::uint8_t rmpp_version{wire::kRmppVersion};
  std::vector<wire::MadMethod> methods{wire::MadMethod::Get, wire::MadMethod::Set};
  bool operator==(const AgentRegistration&) const = default;
};

class Device {
 public:
  Device() = default;
  virtual ~Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] virtual std::uint8_t ports() const = 0;
  /// It can carry 16B packets of Ethernet for virtual NICs.
  [[nodiscard]] virtual bool supports_vnic() const = 0;
  virtual Result<void> register_agent(PortNumber port, const AgentRegistration& agent) = 0;
  virtual void unregister_agent(PortNumber port) = 0;
  /// Sets or clears "Ethernet on fabric" in the port's capability mask, of which the subnet manager
  /// learns by a trap.
  virtual Result<void> set_ethernet_on_fabric(PortNumber port, bool is_supported) = 0;
  /// The P_Key of management: the default partition's, as a full member if the port is one.
  [[nodiscard]] virtual PKey management_pkey(PortNumber port) const = 0;
  virtual void send_mad(PortNumber port, const VemaPeer& to, std::vector<std::byte> mad) = 0;
  virtual void send_packet(PortNumber port, VirtualPort::Sent packet) = 0;

  /// The address of an interface to which the manager has assigned none; not zero.
  [[nodiscard]] virtual wire::MacAddress hardware_mac(const VirtualPortName& name) const = 0;
  /// An interface is to be made, which begins as down; false: it cannot be.
  [[nodiscard]] virtual bool add_interface(const VirtualPortName& name) = 0;
  /// Address, MTU or carrier may have changed.
  virtual void interface_changed(const VirtualPort& vport) = 0;
  virtual void remove_interface(const VirtualPortName& name) = 0;
  virtual void deliver(const VirtualPortName& name, ByteSpan frame) = 0;
};

}  // namespace weft::opa_vnic
