#pragma once

// Negotiation in the full feature phase, and discovery.

#include <cstdint>
#include <string_view>

#include "wire/iscsi/opcode.h"
#include "wire/layout.h"

namespace weft::wire::iscsi {

/// RFC 7143 §11.10.
struct TextRequest {
  static constexpr std::string_view kName = "iSCSI Text Request";

  bool immediate{};
  Opcode opcode{Opcode::TextRequest};
  bool final{};
  bool continues{};  ///< the text goes on in the next PDU
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{};
  std::uint32_t target_transfer_tag{kNoTag};
  std::uint32_t cmd_sn{};
  std::uint32_t exp_stat_sn{};
  bool operator==(const TextRequest&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<1>,
      Field<"I", 1, &TextRequest::immediate>,
      Field<"Opcode", 6, &TextRequest::opcode>,
      Field<"F", 1, &TextRequest::final>,
      Field<"C", 1, &TextRequest::continues>,
      Reserved<22>,
      Field<"TotalAHSLength", 8, &TextRequest::total_ahs_length>,
      Field<"DataSegmentLength", 24, &TextRequest::data_segment_length>,
      Field<"LUN", 64, &TextRequest::lun>,
      Field<"InitiatorTaskTag", 32, &TextRequest::initiator_task_tag>,
      Field<"TargetTransferTag", 32, &TextRequest::target_transfer_tag>,
      Field<"CmdSN", 32, &TextRequest::cmd_sn>,
      Field<"ExpStatSN", 32, &TextRequest::exp_stat_sn>,
      Reserved<128>>;
  // clang-format on
};

/// RFC 7143 §11.11.
struct TextResponse {
  static constexpr std::string_view kName = "iSCSI Text Response";

  Opcode opcode{Opcode::TextResponse};
  bool final{};
  bool continues{};  ///< the text goes on in the next PDU
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{};
  std::uint32_t target_transfer_tag{kNoTag};
  std::uint32_t stat_sn{};
  std::uint32_t exp_cmd_sn{};
  std::uint32_t max_cmd_sn{};
  bool operator==(const TextResponse&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &TextResponse::opcode>,
      Field<"F", 1, &TextResponse::final>,
      Field<"C", 1, &TextResponse::continues>,
      Reserved<22>,
      Field<"TotalAHSLength", 8, &TextResponse::total_ahs_length>,
      Field<"DataSegmentLength", 24, &TextResponse::data_segment_length>,
      Field<"LUN", 64, &TextResponse::lun>,
      Field<"InitiatorTaskTag", 32, &TextResponse::initiator_task_tag>,
      Field<"TargetTransferTag", 32, &TextResponse::target_transfer_tag>,
      Field<"StatSN", 32, &TextResponse::stat_sn>,
      Field<"ExpCmdSN", 32, &TextResponse::exp_cmd_sn>,
      Field<"MaxCmdSN", 32, &TextResponse::max_cmd_sn>,
      Reserved<96>>;
  // clang-format on
};

}  // namespace weft::wire::iscsi
