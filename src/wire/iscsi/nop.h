#pragma once

// Pings, both ways.

#include <cstdint>
#include <string_view>

#include "wire/iscsi/opcode.h"
#include "wire/layout.h"

namespace weft::wire::iscsi {

/// RFC 7143 §11.18.
struct NopOut {
  static constexpr std::string_view kName = "iSCSI NOP-Out";

  bool immediate{};
  Opcode opcode{Opcode::NopOut};
  bool final{true};  ///< always 1
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{kNoTag};
  std::uint32_t target_transfer_tag{kNoTag};
  std::uint32_t cmd_sn{};
  std::uint32_t exp_stat_sn{};
  bool operator==(const NopOut&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<1>,
      Field<"I", 1, &NopOut::immediate>,
      Field<"Opcode", 6, &NopOut::opcode>,
      Field<"Final", 1, &NopOut::final>,
      Reserved<23>,
      Field<"TotalAHSLength", 8, &NopOut::total_ahs_length>,
      Field<"DataSegmentLength", 24, &NopOut::data_segment_length>,
      Field<"LUN", 64, &NopOut::lun>,
      Field<"InitiatorTaskTag", 32, &NopOut::initiator_task_tag>,
      Field<"TargetTransferTag", 32, &NopOut::target_transfer_tag>,
      Field<"CmdSN", 32, &NopOut::cmd_sn>,
      Field<"ExpStatSN", 32, &NopOut::exp_stat_sn>,
      Reserved<128>>;
  // clang-format on
};

/// RFC 7143 §11.19.
struct NopIn {
  static constexpr std::string_view kName = "iSCSI NOP-In";

  Opcode opcode{Opcode::NopIn};
  bool final{true};  ///< always 1
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{kNoTag};
  std::uint32_t target_transfer_tag{kNoTag};
  std::uint32_t stat_sn{};
  std::uint32_t exp_cmd_sn{};
  std::uint32_t max_cmd_sn{};
  bool operator==(const NopIn&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &NopIn::opcode>,
      Field<"Final", 1, &NopIn::final>,
      Reserved<23>,
      Field<"TotalAHSLength", 8, &NopIn::total_ahs_length>,
      Field<"DataSegmentLength", 24, &NopIn::data_segment_length>,
      Field<"LUN", 64, &NopIn::lun>,
      Field<"InitiatorTaskTag", 32, &NopIn::initiator_task_tag>,
      Field<"TargetTransferTag", 32, &NopIn::target_transfer_tag>,
      Field<"StatSN", 32, &NopIn::stat_sn>,
      Field<"ExpCmdSN", 32, &NopIn::exp_cmd_sn>,
      Field<"MaxCmdSN", 32, &NopIn::max_cmd_sn>,
      Reserved<96>>;
  // clang-format on
};

}  // namespace weft::wire::iscsi
