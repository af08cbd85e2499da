#pragma once

// What precedes an iSCSI control-type PDU in an iSER message, and the Hello messages.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/iscsi/pdu_size.h"
#include "wire/layout.h"

namespace weft::wire::iser {

/// What a message is (RFC 7145 §9.1): 4 bits.
enum class Opcode : std::uint8_t {
  ControlPdu = 1,  ///< an iSCSI control-type PDU follows
  Hello = 2,
  HelloReply = 3,
};

/// The version that all implementations speak (RFC 7145 §9.3).
inline constexpr std::uint8_t kVersion = 10;

/// Of an iSCSI control-type PDU (RFC 7145 §9.2). An STag is an R_Key here, a base offset the
/// virtual address in its region (RFC 7145 appendix A).
struct ControlHeader {
  static constexpr std::string_view kName = "iSER Header";

  Opcode opcode{Opcode::ControlPdu};
  bool has_write_stag{};
  bool has_read_stag{};
  std::uint32_t write_stag{};         ///< of the data that a command writes
  std::uint64_t write_base_offset{};  ///< of its first octet that is not unsolicited
  std::uint32_t read_stag{};          ///< of the place for what a command reads
  std::uint64_t read_base_offset{};
  bool operator==(const ControlHeader&) const = default;

  // clang-format off
  using Wire = Layout<28,
      Field<"Opcode", 4, &ControlHeader::opcode>,
      Field<"W", 1, &ControlHeader::has_write_stag>,
      Field<"R", 1, &ControlHeader::has_read_stag>,
      Reserved<26>,
      Field<"WriteSTag", 32, &ControlHeader::write_stag>,
      Field<"WriteBaseOffset", 64, &ControlHeader::write_base_offset>,
      Field<"ReadSTag", 32, &ControlHeader::read_stag>,
      Field<"ReadBaseOffset", 64, &ControlHeader::read_base_offset>>;
  // clang-format on
};

/// The initiator's first message of the full feature phase, where it says one (RFC 7145 §9.3).
struct Hello {
  static constexpr std::string_view kName = "iSER Hello";

  Opcode opcode{Opcode::Hello};
  std::uint8_t max_version{kVersion};
  std::uint8_t min_version{kVersion};
  std::uint16_t ird{};  ///< RDMA READs that the initiator answers at once
  bool operator==(const Hello&) const = default;

  // clang-format off
  using Wire = Layout<28,
      Field<"Opcode", 4, &Hello::opcode>,
      Reserved<4>,
      Field<"MaxVer", 4, &Hello::max_version>,
      Field<"MinVer", 4, &Hello::min_version>,
      Field<"iSER-IRD", 16, &Hello::ird>,
      Reserved<192>>;
  // clang-format on
};

/// The target's answer (RFC 7145 §9.4).
struct HelloReply {
  static constexpr std::string_view kName = "iSER HelloReply";

  Opcode opcode{Opcode::HelloReply};
  bool rejected{};  ///< the initiator speaks none of the target's versions
  std::uint8_t max_version{kVersion};
  std::uint8_t current_version{kVersion};
  std::uint16_t ord{};  ///< RDMA READs that the target has under way at once
  bool operator==(const HelloReply&) const = default;

  // clang-format off
  using Wire = Layout<28,
      Field<"Opcode", 4, &HelloReply::opcode>,
      Reserved<3>,
      Field<"REJ", 1, &HelloReply::rejected>,
      Field<"MaxVer", 4, &HelloReply::max_version>,
      Field<"CurVer", 4, &HelloReply::current_version>,
      Field<"iSER-ORD", 16, &HelloReply::ord>,
      Reserved<192>>;
  // clang-format on
};

inline constexpr std::size_t kHeaderBytes = kSizeOf<ControlHeader>;
static_assert(kSizeOf<Hello> == kHeaderBytes && kSizeOf<HelloReply> == kHeaderBytes);
/// iSER header and Basic Header Segment: no control-type PDU is shorter.
inline constexpr std::size_t kAllHeaderBytes = kHeaderBytes + iscsi::kHeaderBytes;

}  // namespace weft::wire::iser
