#pragma once

// What answers a PDU that is refused.

#include <cstdint>
#include <string_view>

#include "wire/iscsi/opcode.h"
#include "wire/layout.h"

namespace weft::wire::iscsi {

/// RFC 7143 §11.17.1.
enum class RejectReason : std::uint8_t {
  DataDigestError = 0x02,
  SnackRejected = 0x03,
  ProtocolError = 0x04,
  CommandNotSupported = 0x05,
  TooManyImmediateCommands = 0x06,
  TaskInProgress = 0x07,
  InvalidDataAck = 0x08,
  InvalidPduField = 0x09,
  LongOperationReject = 0x0A,
  NegotiationReset = 0x0B,
  WaitingForLogout = 0x0C,
};

/// RFC 7143 §11.17. The data segment is the header of the refused PDU.
struct Reject {
  static constexpr std::string_view kName = "iSCSI Reject";

  Opcode opcode{Opcode::Reject};
  bool final{true};  ///< always 1
  RejectReason reason{};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint32_t initiator_task_tag{kNoTag};
  std::uint32_t stat_sn{};
  std::uint32_t exp_cmd_sn{};
  std::uint32_t max_cmd_sn{};
  std::uint32_t data_sn{};
  bool operator==(const Reject&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &Reject::opcode>,
      Field<"Final", 1, &Reject::final>,
      Reserved<7>,
      Field<"Reason", 8, &Reject::reason>,
      Reserved<8>,
      Field<"TotalAHSLength", 8, &Reject::total_ahs_length>,
      Field<"DataSegmentLength", 24, &Reject::data_segment_length>,
      Reserved<64>,
      Field<"InitiatorTaskTag", 32, &Reject::initiator_task_tag>,
      Reserved<32>,
      Field<"StatSN", 32, &Reject::stat_sn>,
      Field<"ExpCmdSN", 32, &Reject::exp_cmd_sn>,
      Field<"MaxCmdSN", 32, &Reject::max_cmd_sn>,
      Field<"DataSN/R2TSN", 32, &Reject::data_sn>,
      Reserved<64>>;
  // clang-format on
};

}  // namespace weft::wire::iscsi
