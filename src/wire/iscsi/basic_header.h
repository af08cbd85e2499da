#pragma once

// What all PDUs begin with, whatever they are.

#include <cstdint>
#include <string_view>

#include "wire/iscsi/opcode.h"
#include "wire/layout.h"

namespace weft::wire::iscsi {

/// RFC 7143 §11.2.2.1.
enum class AdditionalHeaderType : std::uint8_t {
  ExtendedCdb = 1,              ///< a reserved octet, then the CDB beyond its 16th octet
  BidirectionalReadLength = 2,  ///< a reserved octet, then 32 bits
};

/// The fields of the Basic Header Segment that have one place in every PDU (RFC 7143 §11.2.1).
struct BasicHeader {
  static constexpr std::string_view kName = "iSCSI Basic Header Segment";

  bool immediate{};
  Opcode opcode{};
  bool final{};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{kNoTag};
  bool operator==(const BasicHeader&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<1>,
      Field<"I", 1, &BasicHeader::immediate>,
      Field<"Opcode", 6, &BasicHeader::opcode>,
      Field<"F", 1, &BasicHeader::final>,
      Reserved<23>,
      Field<"TotalAHSLength", 8, &BasicHeader::total_ahs_length>,
      Field<"DataSegmentLength", 24, &BasicHeader::data_segment_length>,
      Field<"LUN", 64, &BasicHeader::lun>,
      Field<"InitiatorTaskTag", 32, &BasicHeader::initiator_task_tag>,
      Reserved<224>>;
  // clang-format on
};

/// Length and type of an Additional Header Segment (RFC 7143 §11.2.2). `length` counts the octets
/// after these three, without padding; the AHS is padded to a multiple of 4.
struct AdditionalHeader {
  static constexpr std::string_view kName = "iSCSI Additional Header Segment";

  std::uint16_t length{};
  AdditionalHeaderType type{};
  bool operator==(const AdditionalHeader&) const = default;

  // clang-format off
  using Wire = Layout<3,
      Field<"AHSLength", 16, &AdditionalHeader::length>,
      Field<"AHSType", 8, &AdditionalHeader::type>>;
  // clang-format on
};

}  // namespace weft::wire::iscsi
