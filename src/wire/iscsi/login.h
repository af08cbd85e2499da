#pragma once

// Login.

#include <cstdint>
#include <string_view>

#include "wire/iscsi/opcode.h"
#include "wire/layout.h"

namespace weft::wire::iscsi {

/// CSG and NSG (RFC 7143 §11.12.3); 2 is reserved.
enum class LoginStage : std::uint8_t {
  SecurityNegotiation = 0,
  LoginOperationalNegotiation = 1,
  FullFeature = 3,
};

/// Status-Class in the upper octet, Status-Detail in the lower (RFC 7143 §11.13.5).
enum class LoginStatus : std::uint16_t {
  Success = 0x0000,
  TargetMovedTemporarily = 0x0101,
  TargetMovedPermanently = 0x0102,
  InitiatorError = 0x0200,
  AuthenticationFailure = 0x0201,
  AuthorizationFailure = 0x0202,
  NotFound = 0x0203,
  TargetRemoved = 0x0204,
  UnsupportedVersion = 0x0205,
  TooManyConnections = 0x0206,
  MissingParameter = 0x0207,
  CannotIncludeInSession = 0x0208,
  SessionTypeNotSupported = 0x0209,
  SessionDoesNotExist = 0x020A,
  InvalidDuringLogin = 0x020B,
  TargetError = 0x0300,
  ServiceUnavailable = 0x0301,
  OutOfResources = 0x0302,
};

/// RFC 7143 §11.12.
struct LoginRequest {
  static constexpr std::string_view kName = "iSCSI Login Request";

  bool immediate{true};  ///< always 1
  Opcode opcode{Opcode::LoginRequest};
  bool transit{};
  bool continues{};  ///< the text goes on in the next PDU
  LoginStage current_stage{};
  LoginStage next_stage{};
  std::uint8_t version_max{};
  std::uint8_t version_min{};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t isid{};
  std::uint16_t tsih{};
  std::uint32_t initiator_task_tag{};
  std::uint16_t cid{};
  std::uint32_t cmd_sn{};
  std::uint32_t exp_stat_sn{};
  bool operator==(const LoginRequest&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<1>,
      Field<"I", 1, &LoginRequest::immediate>,
      Field<"Opcode", 6, &LoginRequest::opcode>,
      Field<"T", 1, &LoginRequest::transit>,
      Field<"C", 1, &LoginRequest::continues>,
      Reserved<2>,
      Field<"CSG", 2, &LoginRequest::current_stage>,
      Field<"NSG", 2, &LoginRequest::next_stage>,
      Field<"Version-max", 8, &LoginRequest::version_max>,
      Field<"Version-min", 8, &LoginRequest::version_min>,
      Field<"TotalAHSLength", 8, &LoginRequest::total_ahs_length>,
      Field<"DataSegmentLength", 24, &LoginRequest::data_segment_length>,
      Field<"ISID", 48, &LoginRequest::isid>,
      Field<"TSIH", 16, &LoginRequest::tsih>,
      Field<"InitiatorTaskTag", 32, &LoginRequest::initiator_task_tag>,
      Field<"CID", 16, &LoginRequest::cid>,
      Reserved<16>,
      Field<"CmdSN", 32, &LoginRequest::cmd_sn>,
      Field<"ExpStatSN", 32, &LoginRequest::exp_stat_sn>,
      Reserved<128>>;
  // clang-format on
};

/// RFC 7143 §11.13.
struct LoginResponse {
  static constexpr std::string_view kName = "iSCSI Login Response";

  Opcode opcode{Opcode::LoginResponse};
  bool transit{};
  bool continues{};  ///< the text goes on in the next PDU
  LoginStage current_stage{};
  LoginStage next_stage{};
  std::uint8_t version_max{};
  std::uint8_t version_active{};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t isid{};
  std::uint16_t tsih{};
  std::uint32_t initiator_task_tag{};
  std::uint32_t stat_sn{};
  std::uint32_t exp_cmd_sn{};
  std::uint32_t max_cmd_sn{};
  LoginStatus status{};  ///< Status-Class and Status-Detail
  bool operator==(const LoginResponse&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &LoginResponse::opcode>,
      Field<"T", 1, &LoginResponse::transit>,
      Field<"C", 1, &LoginResponse::continues>,
      Reserved<2>,
      Field<"CSG", 2, &LoginResponse::current_stage>,
      Field<"NSG", 2, &LoginResponse::next_stage>,
      Field<"Version-max", 8, &LoginResponse::version_max>,
      Field<"Version-active", 8, &LoginResponse::version_active>,
      Field<"TotalAHSLength", 8, &LoginResponse::total_ahs_length>,
      Field<"DataSegmentLength", 24, &LoginResponse::data_segment_length>,
      Field<"ISID", 48, &LoginResponse::isid>,
      Field<"TSIH", 16, &LoginResponse::tsih>,
      Field<"InitiatorTaskTag", 32, &LoginResponse::initiator_task_tag>,
      Reserved<32>,
      Field<"StatSN", 32, &LoginResponse::stat_sn>,
      Field<"ExpCmdSN", 32, &LoginResponse::exp_cmd_sn>,
      Field<"MaxCmdSN", 32, &LoginResponse::max_cmd_sn>,
      Field<"Status", 16, &LoginResponse::status>,
      Reserved<80>>;
  // clang-format on
};

}  // namespace weft::wire::iscsi
