#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"
#include "wire/mad/mad.h"
#include "wire/mad/rmpp.h"

namespace weft::wire {

inline constexpr std::uint8_t kSaClassVersion = 2;
inline constexpr std::size_t kRmppHeaderEnd =
    36;  ///< MAD and RMPP headers, not counted by PayloadLength
inline constexpr std::size_t kSaHeaderBytes = 20;  ///< repeated in each segment after those headers
inline constexpr std::size_t kSaDataBytes = 200;

/// Attributes of subnet administration (IBTA vol 1 §15.2.5).
enum class SaAttribute : std::uint16_t {
  ClassPortInfo = 0x0001,
  Notice = 0x0002,
  InformInfo = 0x0003,
  NodeRecord = 0x0011,
  PortInfoRecord = 0x0012,
  SlToVlMappingTableRecord = 0x0013,
  SwitchInfoRecord = 0x0014,
  LinearForwardingTableRecord = 0x0015,
  RandomForwardingTableRecord = 0x0016,
  MulticastForwardingTableRecord = 0x0017,
  SmInfoRecord = 0x0018,
  LinkRecord = 0x0020,
  GuidInfoRecord = 0x0030,
  ServiceRecord = 0x0031,
  PKeyTableRecord = 0x0033,
  PathRecord = 0x0035,
  VlArbitrationTableRecord = 0x0036,
  McMemberRecord = 0x0038,
  TraceRecord = 0x0039,
  MultiPathRecord = 0x003A,
  ServiceAssociationRecord = 0x003B,
  InformInfoRecord = 0x00F3,
};

/// SA status codes (IBTA vol 1 §15.2.2), bits 15 to 8 of the MAD status.
enum class SaStatus : std::uint16_t {
  NoResources = 0x0100,
  RequestInvalid = 0x0200,
  NoRecords = 0x0300,
  TooManyRecords = 0x0400,
  RequestInvalidGid = 0x0500,
  RequestInsufficientComponents = 0x0600,
  RequestDenied = 0x0700,
  PrioritySuggested = 0x0800,
};

/// AttributeOffset of records with the given length: the distance between records, which start at
/// multiples of 8 bytes.
[[nodiscard]] constexpr std::uint16_t sa_attribute_offset(std::size_t record_bytes) {
  return static_cast<std::uint16_t>((record_bytes + 7) / 8);
}

/// The headers of an SA MAD (IBTA vol 1 §15.2.1.1).
struct SaHeader {
  static constexpr std::string_view kName = "SA header";

  MadHeader header{.mgmt_class = ManagementClass::SubnAdm, .class_version = kSaClassVersion};
  Rmpp rmpp{};
  std::uint64_t sm_key{};
  std::uint16_t attribute_offset{};  ///< distance between records, in units of 8 bytes
  std::uint64_t component_mask{};    ///< see component_mask.h
  bool operator==(const SaHeader&) const = default;

  // clang-format off
  using Wire = Layout<56,
      Nested<&SaHeader::header>,
      Nested<&SaHeader::rmpp>,
      Field<"SM_Key", 64, &SaHeader::sm_key>,
      Field<"AttributeOffset", 16, &SaHeader::attribute_offset>,
      Reserved<16>,
      Field<"ComponentMask", 64, &SaHeader::component_mask>>;
  // clang-format on
};

/// An SA MAD: a single record, or a segment of a table of records.
struct SaMad {
  static constexpr std::string_view kName = "SA MAD";

  SaHeader sa{};
  std::array<std::byte, 200> data{};
  bool operator==(const SaMad&) const = default;

  // clang-format off
  using Wire = Layout<256,
      Nested<&SaMad::sa>,
      Octets<"AdminData", 200, &SaMad::data>>;
  // clang-format on
};

}  // namespace weft::wire
