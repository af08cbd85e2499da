// Task management (RFC 7143 §11.5, §11.6; RFC 7144 §4).

#include <optional>
#include <utility>

#include "iscsi/target_connection.h"
#include "iscsi/target_server.h"

namespace weft::iscsi {

using wire::iscsi::TaskManagementFunction;
using wire::iscsi::TaskManagementOutcome;
using wire::iscsi::TaskManagementRequest;
using wire::iscsi::TaskManagementResponse;

namespace {

[[nodiscard]] std::optional<scsi::TaskManagement> scsi_function(TaskManagementFunction function) {
  switch (function) {
    case TaskManagementFunction::AbortTask:
      return scsi::TaskManagement::AbortTask;
    case TaskManagementFunction::AbortTaskSet:
      return scsi::TaskManagement::AbortTaskSet;
    case TaskManagementFunction::ClearAca:
      return scsi::TaskManagement::ClearAca;
    case TaskManagementFunction::ClearTaskSet:
      return scsi::TaskManagement::ClearTaskSet;
    case TaskManagementFunction::LogicalUnitReset:
      return scsi::TaskManagement::LogicalUnitReset;
    case TaskManagementFunction::TargetWarmReset:
    case TaskManagementFunction::TargetColdReset:
      return scsi::TaskManagement::TargetReset;
    case TaskManagementFunction::QueryTask:
      return scsi::TaskManagement::QueryTask;
    case TaskManagementFunction::QueryTaskSet:
      return scsi::TaskManagement::QueryTaskSet;
    case TaskManagementFunction::NexusReset:
      return scsi::TaskManagement::NexusReset;
    case TaskManagementFunction::QueryAsyncEvent:
      return scsi::TaskManagement::QueryAsyncEvent;
    case TaskManagementFunction::TaskReassign:
      break;
  }
  return std::nullopt;
}

[[nodiscard]] TaskManagementOutcome outcome_of(scsi::TaskManagementResponse response,
                                               TaskManagementFunction function) {
  switch (response) {
    case scsi::TaskManagementResponse::Complete:
      return TaskManagementOutcome::Complete;
    case scsi::TaskManagementResponse::Succeeded:
      return TaskManagementOutcome::Succeeded;
    case scsi::TaskManagementResponse::TaskNotFound:
      return function == TaskManagementFunction::AbortTask ? TaskManagementOutcome::TaskDoesNotExist
                                                           : TaskManagementOutcome::Complete;
    case scsi::TaskManagementResponse::Rejected:
      return TaskManagementOutcome::Rejected;
    case scsi::TaskManagementResponse::NotSupported:
      return TaskManagementOutcome::NotSupported;
    case scsi::TaskManagementResponse::IncorrectLun:
      return TaskManagementOutcome::LunDoesNotExist;
    case scsi::TaskManagementResponse::NoSuchNexus:
      return TaskManagementOutcome::Rejected;
  }
  return TaskManagementOutcome::Rejected;
}

}  // namespace

void TargetConnection::send_management_response(std::uint32_t tag, TaskManagementOutcome outcome) {
  TaskManagementResponse response;
  response.initiator_task_tag = tag;
  response.response = outcome;
  send_status(response, {}, nullptr);
}

void TargetConnection::handle_management(const TaskManagementRequest& request, Instant now) {
  if (request.function == TaskManagementFunction::TaskReassign) {
    reassign_task(request, now);
    return;
  }
  if (request.function == TaskManagementFunction::AbortTask) {
    abort_task(request, now);
    return;
  }
  const std::optional<scsi::TaskManagement> function = scsi_function(request.function);
  if (!function) {
    send_management_response(request.initiator_task_tag, TaskManagementOutcome::NotSupported);
    return;
  }
  const bool aborts = *function == scsi::TaskManagement::AbortTaskSet ||
                      *function == scsi::TaskManagement::ClearTaskSet ||
                      *function == scsi::TaskManagement::LogicalUnitReset;
  const bool aborts_all = *function == scsi::TaskManagement::TargetReset ||
                          *function == scsi::TaskManagement::NexusReset;
  if (aborts || aborts_all) {
    if (session_->held_managements() >= server_.options_.max_immediate_tasks) {
      send_management_response(request.initiator_task_tag, TaskManagementOutcome::Rejected);
      return;
    }
    HeldRequest held{
        .connection = this, .task = nullptr, .header = wire::pack(request), .data = {}};
    if (session_->hold_management(request.cmd_sn, std::move(held))) {
      return;
    }
    // What the SCSI target does not know yet.
    session_->drop_undelivered([&](const TargetTask& task) {
      return task.in_turn && (aborts_all || task.lun() == request.lun);
    });
  }
  manage(request, *function, now);
  session_->deliver();  // what waited for those
}

void TargetConnection::abort_task(const TaskManagementRequest& request, Instant now) {
  const std::shared_ptr<TargetTask> task = session_->find_task(request.referenced_task_tag);
  if (task != nullptr && (task->state == TargetTask::State::Collecting || task->awaits_put)) {
    session_->remove_task(task->tag());
    send_management_response(request.initiator_task_tag, TaskManagementOutcome::Complete);
    session_->deliver();  // what waited for it
    return;
  }
  if (task == nullptr) {  // RFC 7143 §11.5.5: it may be under way still
    const bool was_under_way = session_->forget_command(request.ref_cmd_sn, request.cmd_sn, now);
    send_management_response(
        request.initiator_task_tag,
        was_under_way ? TaskManagementOutcome::Complete : TaskManagementOutcome::TaskDoesNotExist);
    return;
  }
  manage(request, scsi::TaskManagement::AbortTask, now);
}

void TargetConnection::manage(const TaskManagementRequest& request, scsi::TaskManagement function,
                              Instant /*now*/) {
  const SessionIdentity& identity = session_->identity();
  const std::uint32_t tag = request.initiator_task_tag;
  const bool is_cold = request.function == TaskManagementFunction::TargetColdReset;
  identity.scsi->manage(
      identity.nexus, function, request.lun, request.referenced_task_tag,
      [queue = server_.completions_, tsih = identity.tsih, cid = cid_, tag, is_cold,
       function = request.function](scsi::TaskManagementResponse response) {
        queue->push(ManagementEnd{.tsih = tsih,
                                  .cid = cid,
                                  .tag = tag,
                                  .outcome = outcome_of(response, function),
                                  .is_cold_reset = is_cold});
      });
}

}  // namespace weft::iscsi
