#pragma once

#include <cstdint>
#include <string_view>

#include "wire/layout.h"

/// Header of the reliable multi-packet transaction protocol (IBTA vol 1 §13.6).
namespace weft::wire {

inline constexpr std::uint8_t kRmppVersion = 1;

enum class RmppType : std::uint8_t { None = 0, Data = 1, Ack = 2, Stop = 3, Abort = 4 };

/// RMPPStatus (IBTA vol 1 §13.6.2.1). STOP carries ResourcesExhausted, ABORT the others.
enum class RmppStatus : std::uint8_t {
  Normal = 0,
  ResourcesExhausted = 1,
  TotalTimeTooLong = 118,
  InconsistentLastAndPayloadLength = 119,
  InconsistentFirstAndSegmentNumber = 120,
  BadType = 121,
  NewWindowLastTooSmall = 122,
  SegmentNumberTooBig = 123,
  IllegalStatus = 124,
  UnsupportedVersion = 125,
  TooManyRetries = 126,
  Unspecified = 127,
};

[[nodiscard]] std::string_view name_of(RmppType type);

/// Description of a status: "reserved" for undefined codes, "class specific" from 128 on.
[[nodiscard]] std::string_view name_of(RmppStatus status);

/// RRespTime without information: the receiver uses its default.
inline constexpr std::uint8_t kRmppNoResponseTime = 0x1F;

/// The RMPP header, which follows the common MAD header.
struct Rmpp {
  static constexpr std::string_view kName = "RMPP";

  std::uint8_t version{};
  RmppType type{};
  std::uint8_t response_time{};  ///< exponent, as TimeoutExponent
  bool is_last{};
  bool is_first{};
  bool is_active{};
  RmppStatus status{};
  std::uint32_t data1{};  ///< DATA and ACK: the segment number
  std::uint32_t data2{};  ///< DATA: PayloadLength in bytes; ACK: NewWindowLast
  bool operator==(const Rmpp&) const = default;

  // clang-format off
  using Wire = Layout<12,
      Field<"RMPPVersion", 8, &Rmpp::version>,
      Field<"RMPPType", 8, &Rmpp::type>,
      Field<"RRespTime", 5, &Rmpp::response_time>,
      Field<"Last", 1, &Rmpp::is_last>,
      Field<"First", 1, &Rmpp::is_first>,
      Field<"Active", 1, &Rmpp::is_active>,
      Field<"RMPPStatus", 8, &Rmpp::status>,
      Field<"Data1", 32, &Rmpp::data1>,
      Field<"Data2", 32, &Rmpp::data2>>;
  // clang-format on
};

}  // namespace weft::wire
