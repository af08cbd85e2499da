#pragma once

// Requests for what was lost, and acknowledgement of data.

#include <cstdint>
#include <string_view>

#include "wire/iscsi/opcode.h"
#include "wire/layout.h"

namespace weft::wire::iscsi {

/// RFC 7143 §11.16.1.
enum class SnackType : std::uint8_t {
  DataOrR2t = 0,
  Status = 1,
  DataAck = 2,
  ResegmentedData = 3,  ///< R-Data: all of it, after MaxRecvDataSegmentLength has changed
};

/// RFC 7143 §11.16.
struct SnackRequest {
  static constexpr std::string_view kName = "iSCSI SNACK Request";

  Opcode opcode{Opcode::SnackRequest};
  bool final{true};  ///< always 1
  SnackType type{};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{};
  std::uint32_t target_transfer_tag{kNoTag};
  std::uint32_t exp_stat_sn{};
  std::uint32_t begin{};
  std::uint32_t count{};  ///< 0: all from `begin` on
  bool operator==(const SnackRequest&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &SnackRequest::opcode>,
      Field<"Final", 1, &SnackRequest::final>,
      Reserved<3>,
      Field<"Type", 4, &SnackRequest::type>,
      Reserved<16>,
      Field<"TotalAHSLength", 8, &SnackRequest::total_ahs_length>,
      Field<"DataSegmentLength", 24, &SnackRequest::data_segment_length>,
      Field<"LUN", 64, &SnackRequest::lun>,
      Field<"InitiatorTaskTag", 32, &SnackRequest::initiator_task_tag>,
      Field<"TargetTransferTag", 32, &SnackRequest::target_transfer_tag>,
      Reserved<32>,
      Field<"ExpStatSN", 32, &SnackRequest::exp_stat_sn>,
      Reserved<64>,
      Field<"BegRun", 32, &SnackRequest::begin>,
      Field<"RunLength", 32, &SnackRequest::count>>;
  // clang-format on
};

}  // namespace weft::wire::iscsi
