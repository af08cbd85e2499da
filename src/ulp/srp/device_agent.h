#pragma once

// The device management agent of a port with targets (IBTA vol 1 §16.3, SRP r16a annex B): one I/O
// unit with one controller, whose services are the targets. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "base/result.h"
#include "wire/srp/device_management.h"

namespace weft::srp {

inline constexpr std::uint8_t kIocSlots = 16;

struct ControllerOptions {
  Guid ioc_guid{};
  std::uint32_t vendor_id{};  ///< of the HCA
  std::uint32_t device_id{};
  std::uint16_t device_version{};
  std::string id_string{};  ///< what people read; cut to 63 octets
  std::uint16_t send_queue_depth{};
  std::uint32_t send_message_size{};
  std::uint64_t rdma_size{};  ///< reported as 16 MiB at most
};

/// srpt_set_ioc: puts the low 4 bits of `value` into one-based slot `slot`.
void set_ioc(wire::IoUnitInfo& unit, std::uint16_t slot, std::uint8_t value);

class DeviceAgent {
 public:
  explicit DeviceAgent(const ControllerOptions& options) : options_(options) {}

  /// The name of a target's service: "SRP.T10:" and the identifier extension in 16 digits.
  [[nodiscard]] static std::string service_name(std::uint64_t id_extension);
  /// Exists if the name is taken; NoBufferSpace if a controller cannot have one more.
  Result<void> add_service(const std::string& name, std::uint64_t service_id);

  /// The answer to any MAD of the class; its status says what was wrong. A Set and methods that the
  /// class does not have are answered, too (R-SRPT-5).
  [[nodiscard]] wire::DevMgtMad answer(const wire::DevMgtMad& request) const;

 private:
  void answer_get(wire::DevMgtMad& response) const;
  [[nodiscard]] wire::IoUnitInfo io_unit() const;
  [[nodiscard]] wire::IoControllerProfile profile() const;
  [[nodiscard]] std::uint16_t put_profile(wire::DevMgtMad& response) const;
  [[nodiscard]] std::uint16_t put_services(wire::DevMgtMad& response) const;

  ControllerOptions options_;
  std::vector<wire::IocServiceEntry> services_;
};

}  // namespace weft::srp
