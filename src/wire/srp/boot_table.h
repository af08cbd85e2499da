#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/identifiers.h"
#include "base/keys.h"
#include "wire/layout.h"
#include "wire/srp/srp_codes.h"

namespace weft::wire {

/// A number that firmware tables have in the order of an x86 processor: lowest octet first.
template <class Number>
class LittleEndian {
 public:
  using value_type = Number;

  constexpr LittleEndian() = default;
  /// From what the octets say in network order, as layouts read them.
  constexpr explicit LittleEndian(Number in_network_order) : swapped_(in_network_order) {}
  [[nodiscard]] static constexpr LittleEndian of(Number number) {
    return LittleEndian{std::byteswap(number)};
  }

  [[nodiscard]] constexpr Number number() const { return std::byteswap(swapped_); }
  /// For layouts.
  [[nodiscard]] constexpr Number value() const { return swapped_; }
  friend constexpr bool operator==(LittleEndian, LittleEndian) = default;

 private:
  Number swapped_{};
};

/// Head of the SRP boot firmware table: an ACPI header, then where the parts are. A booted system
/// finds in it the session that its boot loader used (R-SRPI-9).
struct SrpBootTable {
  static constexpr std::string_view kName = "sBFT";

  std::array<std::byte, 4> signature{};
  LittleEndian<std::uint32_t> length{};  ///< of the whole table
  std::uint8_t revision{};
  std::uint8_t checksum{};  ///< makes the sum of all octets 0
  std::array<std::byte, 6> oem_id{};
  std::array<std::byte, 8> oem_table_id{};
  LittleEndian<std::uint32_t> oem_revision{};
  std::array<std::byte, 4> creator_id{};
  LittleEndian<std::uint32_t> creator_revision{};
  LittleEndian<std::uint16_t> scsi_offset{};  ///< of parts, from the table's start
  LittleEndian<std::uint16_t> srp_offset{};
  LittleEndian<std::uint16_t> ib_offset{};
  bool operator==(const SrpBootTable&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Octets<"Signature", 4, &SrpBootTable::signature>,
      Field<"Length", 32, &SrpBootTable::length>,
      Field<"Revision", 8, &SrpBootTable::revision>,
      Field<"Checksum", 8, &SrpBootTable::checksum>,
      Octets<"OEMID", 6, &SrpBootTable::oem_id>,
      Octets<"OEMTableID", 8, &SrpBootTable::oem_table_id>,
      Field<"OEMRevision", 32, &SrpBootTable::oem_revision>,
      Octets<"CreatorID", 4, &SrpBootTable::creator_id>,
      Field<"CreatorRevision", 32, &SrpBootTable::creator_revision>,
      Field<"SCSIOffset", 16, &SrpBootTable::scsi_offset>,
      Field<"SRPOffset", 16, &SrpBootTable::srp_offset>,
      Field<"IBOffset", 16, &SrpBootTable::ib_offset>,
      Reserved<48>>;
  // clang-format on
};

/// Parts of the table; identifiers are in network order.
struct SrpBootScsiPart {
  static constexpr std::string_view kName = "sBFT SCSI";

  std::uint64_t lun{};
  bool operator==(const SrpBootScsiPart&) const = default;

  using Wire = Layout<8, Field<"LUN", 64, &SrpBootScsiPart::lun>>;
};

struct SrpBootSrpPart {
  static constexpr std::string_view kName = "sBFT SRP";

  SrpPortId initiator_port_id{};
  SrpPortId target_port_id{};
  bool operator==(const SrpBootSrpPart&) const = default;

  // clang-format off
  using Wire = Layout<32,
      Octets<"InitiatorPortID", 16, &SrpBootSrpPart::initiator_port_id>,
      Octets<"TargetPortID", 16, &SrpBootSrpPart::target_port_id>>;
  // clang-format on
};

struct SrpBootIbPart {
  static constexpr std::string_view kName = "sBFT InfiniBand";

  Gid source_gid{};
  Gid destination_gid{};
  std::uint64_t service_id{};
  PKey pkey{};
  bool operator==(const SrpBootIbPart&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Octets<"SGID", 16, &SrpBootIbPart::source_gid>,
      Octets<"DGID", 16, &SrpBootIbPart::destination_gid>,
      Field<"ServiceID", 64, &SrpBootIbPart::service_id>,
      Field<"P_Key", 16, &SrpBootIbPart::pkey>,
      Reserved<48>>;
  // clang-format on
};

}  // namespace weft::wire
