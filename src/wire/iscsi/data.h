#pragma once

// Data of commands, and what asks for it.

#include <cstdint>
#include <string_view>

#include "wire/iscsi/opcode.h"
#include "wire/layout.h"

namespace weft::wire::iscsi {

/// RFC 7143 §11.7.
struct DataOut {
  static constexpr std::string_view kName = "iSCSI SCSI Data-Out";

  Opcode opcode{Opcode::DataOut};
  bool final{};  ///< last of a sequence
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{};
  std::uint32_t target_transfer_tag{kNoTag};
  std::uint32_t exp_stat_sn{};
  std::uint32_t data_sn{};
  std::uint32_t buffer_offset{};
  bool operator==(const DataOut&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &DataOut::opcode>,
      Field<"F", 1, &DataOut::final>,
      Reserved<23>,
      Field<"TotalAHSLength", 8, &DataOut::total_ahs_length>,
      Field<"DataSegmentLength", 24, &DataOut::data_segment_length>,
      Field<"LUN", 64, &DataOut::lun>,
      Field<"InitiatorTaskTag", 32, &DataOut::initiator_task_tag>,
      Field<"TargetTransferTag", 32, &DataOut::target_transfer_tag>,
      Reserved<32>,
      Field<"ExpStatSN", 32, &DataOut::exp_stat_sn>,
      Reserved<32>,
      Field<"DataSN", 32, &DataOut::data_sn>,
      Field<"BufferOffset", 32, &DataOut::buffer_offset>,
      Reserved<32>>;
  // clang-format on
};

/// RFC 7143 §11.7. StatSN, Status and the residual count are there with the S bit only.
struct DataIn {
  static constexpr std::string_view kName = "iSCSI SCSI Data-In";

  Opcode opcode{Opcode::DataIn};
  bool final{};        ///< last of a sequence
  bool acknowledge{};  ///< asks for a DataACK SNACK
  bool overflow{};
  bool underflow{};
  bool has_status{};
  std::uint8_t status{};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{};
  std::uint32_t target_transfer_tag{kNoTag};
  std::uint32_t stat_sn{};
  std::uint32_t exp_cmd_sn{};
  std::uint32_t max_cmd_sn{};
  std::uint32_t data_sn{};
  std::uint32_t buffer_offset{};
  std::uint32_t residual{};
  bool operator==(const DataIn&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &DataIn::opcode>,
      Field<"F", 1, &DataIn::final>,
      Field<"A", 1, &DataIn::acknowledge>,
      Reserved<3>,
      Field<"O", 1, &DataIn::overflow>,
      Field<"U", 1, &DataIn::underflow>,
      Field<"S", 1, &DataIn::has_status>,
      Reserved<8>,
      Field<"Status", 8, &DataIn::status>,
      Field<"TotalAHSLength", 8, &DataIn::total_ahs_length>,
      Field<"DataSegmentLength", 24, &DataIn::data_segment_length>,
      Field<"LUN", 64, &DataIn::lun>,
      Field<"InitiatorTaskTag", 32, &DataIn::initiator_task_tag>,
      Field<"TargetTransferTag", 32, &DataIn::target_transfer_tag>,
      Field<"StatSN", 32, &DataIn::stat_sn>,
      Field<"ExpCmdSN", 32, &DataIn::exp_cmd_sn>,
      Field<"MaxCmdSN", 32, &DataIn::max_cmd_sn>,
      Field<"DataSN", 32, &DataIn::data_sn>,
      Field<"BufferOffset", 32, &DataIn::buffer_offset>,
      Field<"ResidualCount", 32, &DataIn::residual>>;
  // clang-format on
};

/// RFC 7143 §11.8.
struct R2t {
  static constexpr std::string_view kName = "iSCSI Ready To Transfer";

  Opcode opcode{Opcode::R2t};
  bool final{true};  ///< always 1
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{};
  std::uint32_t target_transfer_tag{kNoTag};
  std::uint32_t stat_sn{};
  std::uint32_t exp_cmd_sn{};
  std::uint32_t max_cmd_sn{};
  std::uint32_t r2t_sn{};
  std::uint32_t buffer_offset{};
  std::uint32_t desired_length{};
  bool operator==(const R2t&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &R2t::opcode>,
      Field<"Final", 1, &R2t::final>,
      Reserved<23>,
      Field<"TotalAHSLength", 8, &R2t::total_ahs_length>,
      Field<"DataSegmentLength", 24, &R2t::data_segment_length>,
      Field<"LUN", 64, &R2t::lun>,
      Field<"InitiatorTaskTag", 32, &R2t::initiator_task_tag>,
      Field<"TargetTransferTag", 32, &R2t::target_transfer_tag>,
      Field<"StatSN", 32, &R2t::stat_sn>,
      Field<"ExpCmdSN", 32, &R2t::exp_cmd_sn>,
      Field<"MaxCmdSN", 32, &R2t::max_cmd_sn>,
      Field<"R2TSN", 32, &R2t::r2t_sn>,
      Field<"BufferOffset", 32, &R2t::buffer_offset>,
      Field<"DesiredDataTransferLength", 32, &R2t::desired_length>>;
  // clang-format on
};

}  // namespace weft::wire::iscsi
