#pragma once

// Logout.

#include <cstdint>
#include <string_view>

#include "wire/iscsi/opcode.h"
#include "wire/layout.h"

namespace weft::wire::iscsi {

/// RFC 7143 §11.14.1.
enum class LogoutReason : std::uint8_t {
  CloseSession = 0,
  CloseConnection = 1,
  RemoveForRecovery = 2,
};

/// RFC 7143 §11.15.1.
enum class LogoutOutcome : std::uint8_t {
  Success = 0,
  CidNotFound = 1,
  RecoveryNotSupported = 2,
  CleanupFailed = 3,
};

/// RFC 7143 §11.14.
struct LogoutRequest {
  static constexpr std::string_view kName = "iSCSI Logout Request";

  bool immediate{};
  Opcode opcode{Opcode::LogoutRequest};
  bool final{true};  ///< always 1
  LogoutReason reason{};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint32_t initiator_task_tag{};
  std::uint16_t cid{};
  std::uint32_t cmd_sn{};
  std::uint32_t exp_stat_sn{};
  bool operator==(const LogoutRequest&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<1>,
      Field<"I", 1, &LogoutRequest::immediate>,
      Field<"Opcode", 6, &LogoutRequest::opcode>,
      Field<"Final", 1, &LogoutRequest::final>,
      Field<"ReasonCode", 7, &LogoutRequest::reason>,
      Reserved<16>,
      Field<"TotalAHSLength", 8, &LogoutRequest::total_ahs_length>,
      Field<"DataSegmentLength", 24, &LogoutRequest::data_segment_length>,
      Reserved<64>,
      Field<"InitiatorTaskTag", 32, &LogoutRequest::initiator_task_tag>,
      Field<"CID", 16, &LogoutRequest::cid>,
      Reserved<16>,
      Field<"CmdSN", 32, &LogoutRequest::cmd_sn>,
      Field<"ExpStatSN", 32, &LogoutRequest::exp_stat_sn>,
      Reserved<128>>;
  // clang-format on
};

/// RFC 7143 §11.15.
struct LogoutResponse {
  static constexpr std::string_view kName = "iSCSI Logout Response";

  Opcode opcode{Opcode::LogoutResponse};
  bool final{true};  ///< always 1
  LogoutOutcome response{};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint32_t initiator_task_tag{};
  std::uint32_t stat_sn{};
  std::uint32_t exp_cmd_sn{};
  std::uint32_t max_cmd_sn{};
  std::uint16_t time_to_wait_seconds{};
  std::uint16_t time_to_retain_seconds{};
  bool operator==(const LogoutResponse&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &LogoutResponse::opcode>,
      Field<"Final", 1, &LogoutResponse::final>,
      Reserved<7>,
      Field<"Response", 8, &LogoutResponse::response>,
      Reserved<8>,
      Field<"TotalAHSLength", 8, &LogoutResponse::total_ahs_length>,
      Field<"DataSegmentLength", 24, &LogoutResponse::data_segment_length>,
      Reserved<64>,
      Field<"InitiatorTaskTag", 32, &LogoutResponse::initiator_task_tag>,
      Reserved<32>,
      Field<"StatSN", 32, &LogoutResponse::stat_sn>,
      Field<"ExpCmdSN", 32, &LogoutResponse::exp_cmd_sn>,
      Field<"MaxCmdSN", 32, &LogoutResponse::max_cmd_sn>,
      Reserved<32>,
      Field<"Time2Wait", 16, &LogoutResponse::time_to_wait_seconds>,
      Field<"Time2Retain", 16, &LogoutResponse::time_to_retain_seconds>,
      Reserved<32>>;
  // clang-format on
};

}  // namespace weft::wire::iscsi
