#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"
#include "wire/srp/srp_codes.h"

namespace weft::wire {

/// SRP_I_LOGOUT (SRP r16a §6.5).
struct SrpILogout {
  static constexpr std::string_view kName = "SRP_I_LOGOUT";

  SrpOpcode opcode{SrpOpcode::ILogout};
  std::uint64_t tag{};
  bool operator==(const SrpILogout&) const = default;

  // clang-format off
  using Wire = Layout<16,
      Field<"OPCODE", 8, &SrpILogout::opcode>,
      Reserved<56>,
      Field<"TAG", 64, &SrpILogout::tag>>;
  // clang-format on
};

/// SRP_T_LOGOUT (SRP r16a §6.6).
struct SrpTLogout {
  static constexpr std::string_view kName = "SRP_T_LOGOUT";

  SrpOpcode opcode{SrpOpcode::TLogout};
  std::uint8_t solicited_notification{};
  std::uint32_t reason{};  ///< 0: none given
  std::uint64_t tag{};
  bool operator==(const SrpTLogout&) const = default;

  // clang-format off
  using Wire = Layout<16,
      Field<"OPCODE", 8, &SrpTLogout::opcode>,
      Field<"SOLNT", 8, &SrpTLogout::solicited_notification>,
      Reserved<16>,
      Field<"REASON", 32, &SrpTLogout::reason>,
      Field<"TAG", 64, &SrpTLogout::tag>>;
  // clang-format on
};

/// SRP_TSK_MGMT (SRP r16a §6.7).
struct SrpTskMgmt {
  static constexpr std::string_view kName = "SRP_TSK_MGMT";

  SrpOpcode opcode{SrpOpcode::TskMgmt};
  std::uint8_t solicited_notification{};
  std::uint64_t tag{};
  std::uint64_t lun{};  ///< all 8 octets
  SrpTaskFunction function{};
  std::uint64_t task_tag{};  ///< of the task to abort
  bool operator==(const SrpTskMgmt&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Field<"OPCODE", 8, &SrpTskMgmt::opcode>,
      Field<"SOLNT", 8, &SrpTskMgmt::solicited_notification>,
      Reserved<48>,
      Field<"TAG", 64, &SrpTskMgmt::tag>,
      Reserved<32>,
      Field<"LUN", 64, &SrpTskMgmt::lun>,
      Reserved<16>,
      Field<"TASK MANAGEMENT FUNCTION", 8, &SrpTskMgmt::function>,
      Reserved<8>,
      Field<"TAG OF TASK TO BE MANAGED", 64, &SrpTskMgmt::task_tag>,
      Reserved<64>>;
  // clang-format on
};

/// SRP_CMD without additional CDB and descriptors (SRP r16a §6.8).
struct SrpCmd {
  static constexpr std::string_view kName = "SRP_CMD";

  SrpOpcode opcode{SrpOpcode::Cmd};
  std::uint8_t solicited_notification{};
  SrpBufferFormat data_out_format{};
  SrpBufferFormat data_in_format{};
  std::uint8_t data_out_count{};  ///< indirect: descriptors in the partial list
  std::uint8_t data_in_count{};
  std::uint64_t tag{};
  std::uint64_t lun{};  ///< all 8 octets
  SrpTaskAttribute attribute{};
  std::uint8_t additional_cdb_words{};  ///< of 4 octets
  std::array<std::byte, 16> cdb{};
  bool operator==(const SrpCmd&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Field<"OPCODE", 8, &SrpCmd::opcode>,
      Field<"SOLNT", 8, &SrpCmd::solicited_notification>,
      Reserved<24>,
      Field<"DATA-OUT BUFFER DESCRIPTOR FORMAT", 4, &SrpCmd::data_out_format>,
      Field<"DATA-IN BUFFER DESCRIPTOR FORMAT", 4, &SrpCmd::data_in_format>,
      Field<"DATA-OUT BUFFER DESCRIPTOR COUNT", 8, &SrpCmd::data_out_count>,
      Field<"DATA-IN BUFFER DESCRIPTOR COUNT", 8, &SrpCmd::data_in_count>,
      Field<"TAG", 64, &SrpCmd::tag>,
      Reserved<32>,
      Field<"LUN", 64, &SrpCmd::lun>,
      Reserved<8>,
      Field<"TASK ATTRIBUTE", 8, &SrpCmd::attribute>,
      Reserved<8>,
      Field<"ADDITIONAL CDB LENGTH", 6, &SrpCmd::additional_cdb_words>,
      Reserved<2>,
      Octets<"CDB", 16, &SrpCmd::cdb>>;
  // clang-format on
};

/// SRP_CRED_REQ (SRP r16a §6.10): credits without a response to carry them.
struct SrpCredReq {
  static constexpr std::string_view kName = "SRP_CRED_REQ";

  SrpOpcode opcode{SrpOpcode::CredReq};
  std::uint8_t solicited_notification{};
  std::int32_t request_limit_delta{};
  std::uint64_t tag{};
  bool operator==(const SrpCredReq&) const = default;

  // clang-format off
  using Wire = Layout<16,
      Field<"OPCODE", 8, &SrpCredReq::opcode>,
      Field<"SOLNT", 8, &SrpCredReq::solicited_notification>,
      Reserved<16>,
      Field<"REQUEST LIMIT DELTA", 32, &SrpCredReq::request_limit_delta>,
      Field<"TAG", 64, &SrpCredReq::tag>>;
  // clang-format on
};

/// SRP_AER_REQ without its sense data (SRP r16a §6.12).
struct SrpAerReq {
  static constexpr std::string_view kName = "SRP_AER_REQ";

  SrpOpcode opcode{SrpOpcode::AerReq};
  std::uint8_t solicited_notification{};
  std::int32_t request_limit_delta{};
  std::uint64_t tag{};
  std::uint64_t lun{};
  std::uint32_t sense_length{};
  bool operator==(const SrpAerReq&) const = default;

  // clang-format off
  using Wire = Layout<36,
      Field<"OPCODE", 8, &SrpAerReq::opcode>,
      Field<"SOLNT", 8, &SrpAerReq::solicited_notification>,
      Reserved<16>,
      Field<"REQUEST LIMIT DELTA", 32, &SrpAerReq::request_limit_delta>,
      Field<"TAG", 64, &SrpAerReq::tag>,
      Reserved<32>,
      Field<"LUN", 64, &SrpAerReq::lun>,
      Field<"SENSE DATA LIST LENGTH", 32, &SrpAerReq::sense_length>,
      Reserved<32>>;
  // clang-format on
};

}  // namespace weft::wire
