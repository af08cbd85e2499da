#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "wire/layout.h"
#include "wire/layout_array.h"
#include "wire/mad/mad.h"

namespace weft::wire {

/// Attributes of device management (IBTA vol 1 §16.3.3) that SRP uses; ClassPortInfo has the common
/// number.
inline constexpr std::uint16_t kAttributeIoUnitInfo = 0x0010;
inline constexpr std::uint16_t kAttributeIoControllerProfile = 0x0011;  ///< modifier: slot
inline constexpr std::uint16_t kAttributeServiceEntries = 0x0012;  ///< slot << 16 | high << 8 | low

/// Status of its own (IBTA vol 1 §16.3.2.1).
inline constexpr std::uint16_t kDevMgtStatusNoIoc = 0x0100;
inline constexpr std::uint16_t kDevMgtStatusNoServiceEntries = 0x0200;

/// A MAD of device management (IBTA vol 1 §16.3.1).
struct DevMgtMad {
  static constexpr std::string_view kName = "Device management MAD";

  MadHeader header{.mgmt_class = ManagementClass::DevMgt};
  std::array<std::byte, 192> data{};
  bool operator==(const DevMgtMad&) const = default;

  // clang-format off
  using Wire = Layout<kMadBytes,
      Nested<&DevMgtMad::header>,
      Reserved<320>,
      Octets<"DevMgtData", 192, &DevMgtMad::data>>;
  // clang-format on
};

/// What is in a slot of an I/O unit.
enum class IocSlot : std::uint8_t { Empty = 0x0, Present = 0x1, DoesNotExist = 0xF };

/// IOUnitInfo (IBTA vol 1 §16.3.3.3).
struct IoUnitInfo {
  static constexpr std::string_view kName = "IOUnitInfo";

  std::uint16_t change_id{};
  std::uint8_t max_controllers{};
  std::uint8_t diag_and_option_rom{};
  std::array<IocSlot, 256> controller_list{};  ///< slot 1 first
  bool operator==(const IoUnitInfo&) const = default;

  // clang-format off
  using Wire = Layout<132,
      Field<"ChangeID", 16, &IoUnitInfo::change_id>,
      Field<"MaxControllers", 8, &IoUnitInfo::max_controllers>,
      Field<"DiagDeviceID_OptionROM", 8, &IoUnitInfo::diag_and_option_rom>,
      Numbers<"ControllerList", 4, 256, &IoUnitInfo::controller_list>>;
  // clang-format on
};

/// Controller operations capability mask (IBTA vol 1 §16.3.3.4).
inline constexpr std::uint8_t kIocSendTo = 0x01;
inline constexpr std::uint8_t kIocSendFrom = 0x02;
inline constexpr std::uint8_t kIocRdmaReadFrom = 0x08;
inline constexpr std::uint8_t kIocRdmaWriteFrom = 0x20;

/// How an SRP target announces itself (SRP r16a annex B); revision 10 of SRP had another I/O class.
inline constexpr std::uint16_t kSrpIoClass = 0x0100;
inline constexpr std::uint16_t kSrpRev10IoClass = 0xFF00;
inline constexpr std::uint16_t kSrpIoSubclass = 0x609E;
inline constexpr std::uint16_t kSrpIoProtocol = 0x0108;
inline constexpr std::uint16_t kSrpIoProtocolVersion = 1;

/// IOControllerProfile (IBTA vol 1 §16.3.3.4).
struct IoControllerProfile {
  static constexpr std::string_view kName = "IOControllerProfile";

  Guid ioc_guid{};
  std::uint32_t vendor_id{};  ///< 24 bits used
  std::uint32_t device_id{};
  std::uint16_t device_version{};
  std::uint32_t subsystem_vendor_id{};
  std::uint32_t subsystem_id{};
  std::uint16_t io_class{};
  std::uint16_t io_subclass{};
  std::uint16_t protocol{};
  std::uint16_t protocol_version{};
  std::uint16_t service_connections{};
  std::uint16_t initiators_supported{};
  std::uint16_t send_message_depth{};
  std::uint8_t rdma_read_depth{};
  std::uint32_t send_message_size{};
  std::uint32_t rdma_transfer_size{};
  std::uint8_t controller_operations{};
  std::uint8_t controller_services{};
  std::uint8_t service_entries{};
  std::array<std::byte, 64> id_string{};  ///< UTF-8, filled with zeroes
  bool operator==(const IoControllerProfile&) const = default;

  // clang-format off
  using Wire = Layout<128,
      Field<"IOCGUID", 64, &IoControllerProfile::ioc_guid>,
      Field<"VendorID", 32, &IoControllerProfile::vendor_id>,
      Field<"DeviceID", 32, &IoControllerProfile::device_id>,
      Field<"DeviceVersion", 16, &IoControllerProfile::device_version>,
      Reserved<16>,
      Field<"SubsystemVendorID", 32, &IoControllerProfile::subsystem_vendor_id>,
      Field<"SubsystemID", 32, &IoControllerProfile::subsystem_id>,
      Field<"IOClass", 16, &IoControllerProfile::io_class>,
      Field<"IOSubclass", 16, &IoControllerProfile::io_subclass>,
      Field<"Protocol", 16, &IoControllerProfile::protocol>,
      Field<"ProtocolVersion", 16, &IoControllerProfile::protocol_version>,
      Field<"ServiceConnections", 16, &IoControllerProfile::service_connections>,
      Field<"InitiatorsSupported", 16, &IoControllerProfile::initiators_supported>,
      Field<"SendMessageDepth", 16, &IoControllerProfile::send_message_depth>,
      Reserved<8>,
      Field<"RDMAReadDepth", 8, &IoControllerProfile::rdma_read_depth>,
      Field<"SendMessageSize", 32, &IoControllerProfile::send_message_size>,
      Field<"RDMATransferSize", 32, &IoControllerProfile::rdma_transfer_size>,
      Field<"ControllerOperations", 8, &IoControllerProfile::controller_operations>,
      Field<"ControllerServices", 8, &IoControllerProfile::controller_services>,
      Field<"ServiceEntries", 8, &IoControllerProfile::service_entries>,
      Reserved<72>,
      Octets<"IDString", 64, &IoControllerProfile::id_string>>;
  // clang-format on
};

/// One service of a controller.
struct IocServiceEntry {
  static constexpr std::string_view kName = "Service entry";
  static constexpr std::size_t kNameBytes = 40;

  std::array<std::byte, kNameBytes> name{};  ///< filled with zeroes
  std::uint64_t service_id{};
  bool operator==(const IocServiceEntry&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Octets<"ServiceName", kNameBytes, &IocServiceEntry::name>,
      Field<"ServiceID", 64, &IocServiceEntry::service_id>>;
  // clang-format on
};

/// ServiceEntries (IBTA vol 1 §16.3.3.5): those from `low` to `high` of the modifier.
struct ServiceEntries {
  static constexpr std::string_view kName = "ServiceEntries";
  static constexpr std::size_t kMost = 4;

  std::array<IocServiceEntry, kMost> entries{};
  bool operator==(const ServiceEntries&) const = default;

  using Wire = Layout<192, Structures<kMost, &ServiceEntries::entries>>;
};

/// The attribute modifier of ServiceEntries.
struct ServiceEntriesRange {
  std::uint16_t slot{};  ///< from 1
  std::uint8_t high{};
  std::uint8_t low{};
  bool operator==(const ServiceEntriesRange&) const = default;

  [[nodiscard]] static constexpr ServiceEntriesRange from(std::uint32_t modifier) {
    return {.slot = static_cast<std::uint16_t>(modifier >> 16),
            .high = static_cast<std::uint8_t>(modifier >> 8),
            .low = static_cast<std::uint8_t>(modifier)};
  }
  [[nodiscard]] constexpr std::uint32_t modifier() const {
    return static_cast<std::uint32_t>(slot) << 16 | static_cast<std::uint32_t>(high) << 8 | low;
  }
};

}  // namespace weft::wire
