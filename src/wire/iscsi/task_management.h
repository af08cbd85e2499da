#pragma once

// Task management.

#include <cstdint>
#include <string_view>

#include "wire/iscsi/opcode.h"
#include "wire/layout.h"

namespace weft::wire::iscsi {

/// RFC 7143 §11.5.1; from QueryTask on RFC 7144 §4.1.
enum class TaskManagementFunction : std::uint8_t {
  AbortTask = 1,
  AbortTaskSet = 2,
  ClearAca = 3,
  ClearTaskSet = 4,
  LogicalUnitReset = 5,
  TargetWarmReset = 6,
  TargetColdReset = 7,
  TaskReassign = 8,
  QueryTask = 9,
  QueryTaskSet = 10,
  NexusReset = 11,
  QueryAsyncEvent = 12,
};

/// RFC 7143 §11.6.1; FunctionSucceeded is of RFC 7144 §4.2.
enum class TaskManagementOutcome : std::uint8_t {
  Complete = 0,
  TaskDoesNotExist = 1,
  LunDoesNotExist = 2,
  TaskStillAllegiant = 3,
  ReassignmentNotSupported = 4,
  NotSupported = 5,
  NotAuthorized = 6,
  Succeeded = 7,
  Rejected = 255,
};

/// RFC 7143 §11.5.
struct TaskManagementRequest {
  static constexpr std::string_view kName = "iSCSI Task Management Function Request";

  bool immediate{};
  Opcode opcode{Opcode::TaskManagementRequest};
  bool final{true};  ///< always 1
  TaskManagementFunction function{TaskManagementFunction::AbortTask};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint64_t lun{};
  std::uint32_t initiator_task_tag{};
  std::uint32_t referenced_task_tag{kNoTag};
  std::uint32_t cmd_sn{};
  std::uint32_t exp_stat_sn{};
  std::uint32_t ref_cmd_sn{};
  std::uint32_t exp_data_sn{};
  bool operator==(const TaskManagementRequest&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<1>,
      Field<"I", 1, &TaskManagementRequest::immediate>,
      Field<"Opcode", 6, &TaskManagementRequest::opcode>,
      Field<"Final", 1, &TaskManagementRequest::final>,
      Field<"Function", 7, &TaskManagementRequest::function>,
      Reserved<16>,
      Field<"TotalAHSLength", 8, &TaskManagementRequest::total_ahs_length>,
      Field<"DataSegmentLength", 24, &TaskManagementRequest::data_segment_length>,
      Field<"LUN", 64, &TaskManagementRequest::lun>,
      Field<"InitiatorTaskTag", 32, &TaskManagementRequest::initiator_task_tag>,
      Field<"ReferencedTaskTag", 32, &TaskManagementRequest::referenced_task_tag>,
      Field<"CmdSN", 32, &TaskManagementRequest::cmd_sn>,
      Field<"ExpStatSN", 32, &TaskManagementRequest::exp_stat_sn>,
      Field<"RefCmdSN", 32, &TaskManagementRequest::ref_cmd_sn>,
      Field<"ExpDataSN", 32, &TaskManagementRequest::exp_data_sn>,
      Reserved<64>>;
  // clang-format on
};

/// RFC 7143 §11.6.
struct TaskManagementResponse {
  static constexpr std::string_view kName = "iSCSI Task Management Function Response";

  Opcode opcode{Opcode::TaskManagementResponse};
  bool final{true};  ///< always 1
  TaskManagementOutcome response{};
  std::uint8_t total_ahs_length{};
  std::uint32_t data_segment_length{};  ///< octets, without padding
  std::uint32_t initiator_task_tag{};
  std::uint32_t stat_sn{};
  std::uint32_t exp_cmd_sn{};
  std::uint32_t max_cmd_sn{};
  bool operator==(const TaskManagementResponse&) const = default;

  // clang-format off
  using Wire = Layout<48,
      Reserved<2>,
      Field<"Opcode", 6, &TaskManagementResponse::opcode>,
      Field<"Final", 1, &TaskManagementResponse::final>,
      Reserved<7>,
      Field<"Response", 8, &TaskManagementResponse::response>,
      Reserved<8>,
      Field<"TotalAHSLength", 8, &TaskManagementResponse::total_ahs_length>,
      Field<"DataSegmentLength", 24, &TaskManagementResponse::data_segment_length>,
      Reserved<64>,
      Field<"InitiatorTaskTag", 32, &TaskManagementResponse::initiator_task_tag>,
      Reserved<32>,
      Field<"StatSN", 32, &TaskManagementResponse::stat_sn>,
      Field<"ExpCmdSN", 32, &TaskManagementResponse::exp_cmd_sn>,
      Field<"MaxCmdSN", 32, &TaskManagementResponse::max_cmd_sn>,
      Reserved<96>>;
  // clang-format on
};

}  // namespace weft::wire::iscsi
