#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "base/flags.h"
#include "wire/layout.h"
#include "wire/srp/srp_codes.h"

namespace weft::wire {

/// SRP_RSP without response and sense data, which follow in this order (SRP r16a §6.9).
struct SrpRsp {
  static constexpr std::string_view kName = "SRP_RSP";

  SrpOpcode opcode{SrpOpcode::Rsp};
  std::uint8_t solicited_notification{};
  std::int32_t request_limit_delta{};
  std::uint64_t tag{};
  Flags<SrpResponseFlag> flags{};
  std::uint8_t status{};              ///< of SCSI
  std::uint32_t data_out_residual{};  ///< octets, valid with a flag of its direction
  std::uint32_t data_in_residual{};
  std::uint32_t sense_length{};     ///< valid with SenseValid
  std::uint32_t response_length{};  ///< valid with ResponseValid
  bool operator==(const SrpRsp&) const = default;

  // clang-format off
  using Wire = Layout<36,
      Field<"OPCODE", 8, &SrpRsp::opcode>,
      Field<"SOLNT", 8, &SrpRsp::solicited_notification>,
      Reserved<16>,
      Field<"REQUEST LIMIT DELTA", 32, &SrpRsp::request_limit_delta>,
      Field<"TAG", 64, &SrpRsp::tag>,
      Reserved<16>,
      Field<"FLAGS", 8, &SrpRsp::flags>,
      Field<"STATUS", 8, &SrpRsp::status>,
      Field<"DATA-OUT RESIDUAL COUNT", 32, &SrpRsp::data_out_residual>,
      Field<"DATA-IN RESIDUAL COUNT", 32, &SrpRsp::data_in_residual>,
      Field<"SENSE DATA LIST LENGTH", 32, &SrpRsp::sense_length>,
      Field<"RESPONSE DATA LIST LENGTH", 32, &SrpRsp::response_length>>;
  // clang-format on
};

/// RESPONSE DATA of SRP_RSP for task management.
struct SrpResponseData {
  static constexpr std::string_view kName = "SRP response data";

  SrpResponseCode code{};
  bool operator==(const SrpResponseData&) const = default;

  using Wire = Layout<4, Reserved<24>, Field<"RSP_CODE", 8, &SrpResponseData::code>>;
};

/// SRP_CRED_RSP (SRP r16a §6.11): the tag of the SRP_CRED_REQ.
struct SrpCredRsp {
  static constexpr std::string_view kName = "SRP_CRED_RSP";

  SrpOpcode opcode{SrpOpcode::CredRsp};
  std::uint64_t tag{};
  bool operator==(const SrpCredRsp&) const = default;

  // clang-format off
  using Wire = Layout<16,
      Field<"OPCODE", 8, &SrpCredRsp::opcode>,
      Reserved<56>,
      Field<"TAG", 64, &SrpCredRsp::tag>>;
  // clang-format on
};

/// SRP_AER_RSP (SRP r16a §6.13): the tag of the SRP_AER_REQ.
struct SrpAerRsp {
  static constexpr std::string_view kName = "SRP_AER_RSP";

  SrpOpcode opcode{SrpOpcode::AerRsp};
  std::uint64_t tag{};
  bool operator==(const SrpAerRsp&) const = default;

  // clang-format off
  using Wire = Layout<16,
      Field<"OPCODE", 8, &SrpAerRsp::opcode>,
      Reserved<56>,
      Field<"TAG", 64, &SrpAerRsp::tag>>;
  // clang-format on
};

}  // namespace weft::wire
