#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

inline constexpr std::uint8_t kMadBaseVersion = 1;
inline constexpr std::size_t kMadBytes = 256;  ///< length of every MAD (IBTA vol 1 §13.4.1)

/// Management classes (IBTA vol 1 §13.4.4). 0x09..0x0F and 0x30..0x4F are for vendors.
enum class ManagementClass : std::uint8_t {
  SubnLidRouted = 0x01,
  SubnAdm = 0x03,
  Perf = 0x04,
  BoardManagement = 0x05,
  DevMgt = 0x06,
  ComMgt = 0x07,
  Snmp = 0x08,
  DevAdm = 0x10,
  BootMgt = 0x11,
  Bis = 0x12,
  CongestionControl = 0x21,
  SubnDirectedRoute = 0x81,
};

/// Methods, including the R (response) bit, which is the most significant (IBTA vol 1 §13.4.5).
enum class MadMethod : std::uint8_t {
  Get = 0x01,
  Set = 0x02,
  Send = 0x03,
  Trap = 0x05,
  Report = 0x06,
  TrapRepress = 0x07,
  GetTable = 0x12,
  GetTraceTable = 0x13,
  GetMulti = 0x14,
  Delete = 0x15,
  GetResp = 0x81,
  ReportResp = 0x86,
  GetTableResp = 0x92,
  GetMultiResp = 0x94,
  DeleteResp = 0x95,
};

inline constexpr std::uint8_t kMethodResponseBit = 0x80;

[[nodiscard]] constexpr bool is_response(MadMethod method) {
  return (static_cast<std::uint8_t>(method) & kMethodResponseBit) != 0;
}

/// Status bits common to all classes (IBTA vol 1 §13.4.7). Bits 2 to 4 form a code; bits 8 to 15
/// are class-specific.
inline constexpr std::uint16_t kMadStatusBusy = 0x0001;
inline constexpr std::uint16_t kMadStatusRedirect = 0x0002;
inline constexpr std::uint16_t kMadStatusCodeMask = 0x001C;
inline constexpr std::uint16_t kMadStatusBadVersion = 0x0004;
inline constexpr std::uint16_t kMadStatusMethodUnsupported = 0x0008;
inline constexpr std::uint16_t kMadStatusMethodAttributeUnsupported = 0x000C;
inline constexpr std::uint16_t kMadStatusInvalidField = 0x001C;

/// Attributes common to all classes (IBTA vol 1 §13.4.8).
inline constexpr std::uint16_t kAttributeClassPortInfo = 0x0001;
inline constexpr std::uint16_t kAttributeNotice = 0x0002;
inline constexpr std::uint16_t kAttributeInformInfo = 0x0003;

/// Common MAD header (IBTA vol 1 §13.4.2).
struct MadHeader {
  static constexpr std::string_view kName = "MAD";

  std::uint8_t base_version{kMadBaseVersion};
  ManagementClass mgmt_class{};
  std::uint8_t class_version{1};
  MadMethod method{};
  std::uint16_t status{};
  std::uint16_t class_specific{};
  std::uint64_t transaction_id{};
  std::uint16_t attribute_id{};
  std::uint32_t attribute_modifier{};
  bool operator==(const MadHeader&) const = default;

  // clang-format off
  using Wire = Layout<24,
      Field<"BaseVersion", 8, &MadHeader::base_version>,
      Field<"MgmtClass", 8, &MadHeader::mgmt_class>,
      Field<"ClassVersion", 8, &MadHeader::class_version>,
      Field<"Method", 8, &MadHeader::method>,
      Field<"Status", 16, &MadHeader::status>,
      Field<"ClassSpecific", 16, &MadHeader::class_specific>,
      Field<"TransactionID", 64, &MadHeader::transaction_id>,
      Field<"AttributeID", 16, &MadHeader::attribute_id>,
      Reserved<16>,
      Field<"AttributeModifier", 32, &MadHeader::attribute_modifier>>;
  // clang-format on
};

/// A MAD of a class without a header of its own (IBTA vol 1 §13.4.1).
struct Mad {
  static constexpr std::string_view kName = "MAD with data";

  MadHeader header;
  std::array<std::byte, 232> data{};
  bool operator==(const Mad&) const = default;

  // clang-format off
  using Wire = Layout<kMadBytes,
      Nested<&Mad::header>,
      Octets<"Data", 232, &Mad::data>>;
  // clang-format on
};

/// The specification's name; empty if the number is reserved; "Vendor" for vendor classes.
[[nodiscard]] std::string_view name_of(ManagementClass mgmt_class);
[[nodiscard]] std::string_view name_of(MadMethod method);

/// The attribute's name in its class; empty if unknown.
[[nodiscard]] std::string_view attribute_name(ManagementClass mgmt_class,
                                              std::uint16_t attribute_id);

/// Description of a status; "ok" for 0. The D bit of a directed-route SMP must be cleared before.
[[nodiscard]] std::string status_text(ManagementClass mgmt_class, std::uint16_t status);

}  // namespace weft::wire
