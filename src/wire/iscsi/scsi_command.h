#pragma once

// A SCSI command and its response.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/iscsi/opcode.h"
#include "wire/layout.h"

namespace weft::wire::iscsi {

/// ATTR of a command (RFC 7143 §11.3.1).
enum class TaskAttributeCode : std::uint8_t {
  Untagged = 0,
  Simple = 1,
  Ordered = 2,
  HeadOfQueue = 3,
  Aca = 4,
};

/// RFC 7143 §11.3.
struct ScsiCommand {
  static constexpr std::string_view kName = "iSCSI SCSI Command";

  bool immediate{};
  Opcode opcode{Opcode::ScsiCommand};
  bool final{true};  ///< no unsolicited Data-Out follows
  bool read{};
  bool write{};
  TaskAttributeCode attribute{};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{};
  std::uint32_t expected_data_transfer_length{};
  std::uint32_t cmd_sn{};
  std::uint32_t exp_stat_sn{};
  std::array<std::byte, 16> cdb{};
  bool operator==(const ScsiCommand&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<1>,
      Field<"I", 1, &ScsiCommand::immediate>,
      Field<"Opcode", 6, &ScsiCommand::opcode>,
      Field<"F", 1, &ScsiCommand::final>,
      Field<"R", 1, &ScsiCommand::read>,
      Field<"W", 1, &ScsiCommand::write>,
      Reserved<2>,
      Field<"ATTR", 3, &ScsiCommand::attribute>,
      Reserved<16>,
      Field<"TotalAHSLength", 8, &ScsiCommand::total_ahs_length>,
      Field<"DataSegmentLength", 24, &ScsiCommand::data_segment_length>,
      Field<"LUN", 64, &ScsiCommand::lun>,
      Field<"InitiatorTaskTag", 32, &ScsiCommand::initiator_task_tag>,
      Field<"ExpectedDataTransferLength", 32, &ScsiCommand::expected_data_transfer_length>,
      Field<"CmdSN", 32, &ScsiCommand::cmd_sn>,
      Field<"ExpStatSN", 32, &ScsiCommand::exp_stat_sn>,
      Octets<"CDB", 16, &ScsiCommand::cdb>>;
  // clang-format on
};

/// RFC 7143 §11.4. The data segment is SenseLength (16 bits), sense data and response data.
struct ScsiResponse {
  static constexpr std::string_view kName = "iSCSI SCSI Response";

  Opcode opcode{Opcode::ScsiResponse};
  bool final{true};  ///< always 1
  bool bidirectional_overflow{};
  bool bidirectional_underflow{};
  bool overflow{};
  bool underflow{};
  std::uint8_t response{};  ///< 0: completed at target, 1: target failure
  std::uint8_t status{};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint32_t initiator_task_tag{};
  std::uint32_t snack_tag{};
  std::uint32_t stat_sn{};
  std::uint32_t exp_cmd_sn{};
  std::uint32_t max_cmd_sn{};
  std::uint32_t exp_data_sn{};  ///< Data-In and R2T PDUs that the target has sent
  std::uint32_t bidirectional_residual{};
  std::uint32_t residual{};
  bool operator==(const ScsiResponse&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &ScsiResponse::opcode>,
      Field<"Final", 1, &ScsiResponse::final>,
      Reserved<2>,
      Field<"o", 1, &ScsiResponse::bidirectional_overflow>,
      Field<"u", 1, &ScsiResponse::bidirectional_underflow>,
      Field<"O", 1, &ScsiResponse::overflow>,
      Field<"U", 1, &ScsiResponse::underflow>,
      Reserved<1>,
      Field<"Response", 8, &ScsiResponse::response>,
      Field<"Status", 8, &ScsiResponse::status>,
      Field<"TotalAHSLength", 8, &ScsiResponse::total_ahs_length>,
      Field<"DataSegmentLength", 24, &ScsiResponse::data_segment_length>,
      Reserved<64>,
      Field<"InitiatorTaskTag", 32, &ScsiResponse::initiator_task_tag>,
      Field<"SNACKTag", 32, &ScsiResponse::snack_tag>,
      Field<"StatSN", 32, &ScsiResponse::stat_sn>,
      Field<"ExpCmdSN", 32, &ScsiResponse::exp_cmd_sn>,
      Field<"MaxCmdSN", 32, &ScsiResponse::max_cmd_sn>,
      Field<"ExpDataSN", 32, &ScsiResponse::exp_data_sn>,
      Field<"BidirectionalReadResidualCount", 32, &ScsiResponse::bidirectional_residual>,
      Field<"ResidualCount", 32, &ScsiResponse::residual>>;
  // clang-format on
};

}  // namespace weft::wire::iscsi
