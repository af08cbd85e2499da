// Recovery within a command, a connection and a session: SNACK and task reassignment (RFC 7143 §7,
// §11.5.6, §11.16).

#include <algorithm>
#include <utility>

#include "iscsi/serial.h"
#include "iscsi/target_connection.h"
#include "iscsi/target_server.h"

namespace weft::iscsi {

using wire::iscsi::RejectReason;
using wire::iscsi::SnackRequest;
using wire::iscsi::SnackType;
using wire::iscsi::TaskManagementOutcome;
using wire::iscsi::TaskManagementRequest;

void TargetConnection::handle_snack(const ReceivedPdu& pdu, Instant /*now*/) {
  const auto request = pdu.as<SnackRequest>();
  if (recovery_level() == 0) {  // RFC 7143 §11.16: not at level 0
    reject(pdu, RejectReason::SnackRejected);
    return;
  }
  bool is_known = false;
  switch (request.type) {
    case SnackType::DataOrR2t:
    case SnackType::ResegmentedData:
      is_known = resend_data(request);
      break;
    case SnackType::Status:
      is_known = resend_status(request);
      break;
    case SnackType::DataAck:
      is_known = true;
      break;  // the data stays until its status is there
  }
  if (!is_known) {
    reject(pdu, RejectReason::SnackRejected);
  }
}

bool TargetConnection::resend_data(const SnackRequest& request) {
  const std::shared_ptr<TargetTask> task = session_->find_task(request.initiator_task_tag);
  if (task == nullptr || task->connection != this) {
    return false;
  }
  const auto is_wanted = [&](std::uint32_t number) {
    return number - request.begin <
           (request.count == 0 ? ~std::uint32_t{0} - request.begin : request.count);
  };
  if (task->header.write && task->state == TargetTask::State::Collecting) {
    for (const DataRequest& one : task->writes->outstanding()) {
      if (is_wanted(one.r2t_sn)) {
        send_r2t(*task, one);
      }
    }
    return true;
  }
  if (task->state != TargetTask::State::Answered || request.begin >= task->data_in_count) {
    return false;
  }
  send_data_in(*task, request.begin, request.count == 0 ? task->data_in_count : request.count);
  return true;
}

bool TargetConnection::resend_status(const SnackRequest& request) {
  bool found = false;
  for (SentStatus& sent : sent_) {
    const bool wants_all = request.begin == 0 && request.count == 0;
    const bool is_wanted =
        wants_all || (request.count == 0 ? !serial_before(sent.stat_sn, request.begin)
                                         : sent.stat_sn - request.begin < request.count);
    if (is_wanted) {
      found = true;
      datamover_.send_control(sent.pdu);
    }
  }
  return found || request.count == 0;
}

void TargetConnection::reassign_task(const TaskManagementRequest& request, Instant now) {
  const auto respond = [&](TaskManagementOutcome outcome) {
    send_management_response(request.initiator_task_tag, outcome);
  };
  if (recovery_level() < 2) {
    respond(TaskManagementOutcome::ReassignmentNotSupported);
    return;
  }
  const std::shared_ptr<TargetTask> task = session_->find_task(request.referenced_task_tag);
  const bool is_over =  // nobody gave it another allegiance in time
      task != nullptr && task->aborted && task->state == TargetTask::State::Submitted;
  if (task == nullptr || is_over) {
    respond(TaskManagementOutcome::TaskDoesNotExist);
    return;
  }
  if (task->connection != nullptr) {
    respond(TaskManagementOutcome::TaskStillAllegiant);
    return;
  }
  task->connection = this;
  task->cid = cid_;
  respond(TaskManagementOutcome::Complete);
  switch (task->state) {
    case TargetTask::State::Collecting:
      task->writes->ask_again();
      request_data(task, now);
      break;
    case TargetTask::State::Submitted:
      break;  // it is answered here when it ends
    case TargetTask::State::Answered:
      if (!task->was_answered) {  // it ended while it had no connection
        answer(task, now);
        break;
      }
      task->stat_sn.reset();
      if (task->completion.data_in_bytes != 0 && request.exp_data_sn < task->data_in_count) {
        // Only what the initiator lacks; the segments may be others than before, in which case it
        // asks for all (RFC 7143 §11.5.6).
        send_data_in(*task, request.exp_data_sn, task->data_in_count);
      }
      if (!task->stat_sn) {
        send_scsi_response(task, now);
      }
      break;
  }
}

}  // namespace weft::iscsi
