#pragma once

#include <cstdint>

#include "base/identifiers.h"
#include "base/result.h"
#include "core/device_attributes.h"
#include "hca/events.h"

namespace weft::core::engine {

/// What of a port its SMA knows and no packet needs (PortInfo, IBTA vol 1 §14.2.5.6).
struct ManagedPort {
  std::uint8_t physical_state{};  ///< PortPhysicalState
  std::uint32_t capability_mask{};
  std::uint16_t capability_mask_2{};
  std::uint16_t pkey_violations{};  ///< both counters saturate
  std::uint16_t qkey_violations{};
  std::uint8_t subnet_timeout{};  ///< exponent
  std::uint8_t init_type_reply{};
};

/// The SMA of an engine's ports, as the engine sees it (node/engine_ports.h). Called from whatever
/// thread calls the core, without locks.
class PortManagement {
 public:
  [[nodiscard]] virtual ManagedPort port(PortNumber number) const = 0;
  [[nodiscard]] virtual Guid system_image_guid() const = 0;

  /// All of it, or none on failure. A change that a subnet manager is to know of raises a trap.
  virtual Result<void> modify_port(PortNumber number, const PortModification& modification) = 0;
  virtual Result<void> modify_device(const DeviceModification& modification) = 0;

  /// QPs of a port have dropped `count` packets for a key of this kind, of which this is the last.
  virtual void report_bad_keys(const hca::BadKey& last, std::uint32_t count) = 0;

 protected:
  ~PortManagement() = default;
};

}  // namespace weft::core::engine
