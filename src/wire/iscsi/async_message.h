#pragma once

// What a target says unasked.

#include <cstdint>
#include <string_view>

#include "wire/iscsi/opcode.h"
#include "wire/layout.h"

namespace weft::wire::iscsi {

/// RFC 7143 §11.9.1. What the parameters mean depends on it.
enum class AsyncEvent : std::uint8_t {
  Scsi = 0,               ///< sense data is in the data segment
  LogoutRequested = 1,    ///< within Parameter3 seconds
  ConnectionDropped = 2,  ///< CID in Parameter1; reconnect after Parameter2, within Parameter3 s
  SessionDropped = 3,
  NegotiationRequested = 4,  ///< within Parameter3 seconds
  TasksTerminated = 5,
  VendorSpecific = 255,
};

/// RFC 7143 §11.9.
struct AsyncMessage {
  static constexpr std::string_view kName = "iSCSI Asynchronous Message";

  Opcode opcode{Opcode::AsyncMessage};
  bool final{true};  ///< always 1
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{kNoTag};
  std::uint32_t stat_sn{};
  std::uint32_t exp_cmd_sn{};
  std::uint32_t max_cmd_sn{};
  AsyncEvent event{};
  std::uint8_t vendor_code{};
  std::uint16_t parameter1{};
  std::uint16_t parameter2{};
  std::uint16_t parameter3{};
  bool operator==(const AsyncMessage&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &AsyncMessage::opcode>,
      Field<"Final", 1, &AsyncMessage::final>,
      Reserved<23>,
      Field<"TotalAHSLength", 8, &AsyncMessage::total_ahs_length>,
      Field<"DataSegmentLength", 24, &AsyncMessage::data_segment_length>,
      Field<"LUN", 64, &AsyncMessage::lun>,
      Field<"InitiatorTaskTag", 32, &AsyncMessage::initiator_task_tag>,
      Reserved<32>,
      Field<"StatSN", 32, &AsyncMessage::stat_sn>,
      Field<"ExpCmdSN", 32, &AsyncMessage::exp_cmd_sn>,
      Field<"MaxCmdSN", 32, &AsyncMessage::max_cmd_sn>,
      Field<"AsyncEvent", 8, &AsyncMessage::event>,
      Field<"AsyncVCode", 8, &AsyncMessage::vendor_code>,
      Field<"Parameter1", 16, &AsyncMessage::parameter1>,
      Field<"Parameter2", 16, &AsyncMessage::parameter2>,
      Field<"Parameter3", 16, &AsyncMessage::parameter3>,
      Reserved<32>>;
  // clang-format on
};

}  // namespace weft::wire::iscsi
