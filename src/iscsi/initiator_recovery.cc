// Error recovery of an initiator: within a command, SNACKs and commands that are sent again (level
// 1, RFC 7143 §7.1.4.1, §11.16), and of a connection, whose tasks get another allegiance (level 2,
// §7.1.4.3, §7.2.2, §11.5.6).

#include <algorithm>
#include <utility>

#include "iscsi/initiator_session.h"
#include "iscsi/planted_bug.h"
#include "wire/iscsi/logout.h"
#include "wire/iscsi/nop.h"
#include "wire/iscsi/reject.h"

namespace weft::iscsi {

using wire::iscsi::DataIn;
using wire::iscsi::kNoTag;
using wire::iscsi::LogoutReason;
using wire::iscsi::LogoutRequest;
using wire::iscsi::NopIn;
using wire::iscsi::Opcode;
using wire::iscsi::Reject;
using wire::iscsi::RejectReason;
using wire::iscsi::ScsiCommand;
using wire::iscsi::ScsiResponse;
using wire::iscsi::SnackRequest;
using wire::iscsi::SnackType;
using wire::iscsi::TaskManagementFunction;
using wire::iscsi::TaskManagementOutcome;

void InitiatorSession::send_snack(Connection& on, SnackRequest request, const NumberRun& run) {
  request.begin = run.begin;
  request.count = run.count;
  request.exp_stat_sn = on.statuses.expected();
  ++recoveries_.snacks;
  on.datamover->send_control(OutgoingPdu{request});
}

void InitiatorSession::ask_for_statuses(Connection& on) {
  while (const auto run = on.statuses.next_to_ask()) {
    SnackRequest request;
    request.type = SnackType::Status;
    request.initiator_task_tag = kNoTag;
    send_snack(on, request, *run);
  }
}

void InitiatorSession::ask_for_data(Connection& on, std::uint32_t tag, Task& task) {
  while (const auto run = task.data_in.next_to_ask()) {
    SnackRequest request;
    request.type = SnackType::DataOrR2t;
    request.initiator_task_tag = tag;
    send_snack(on, request, *run);
  }
}

// An R2T has come, and those before it are missing. They need not come: a target that has given up
// waiting asks for the same data by another R2T.
void InitiatorSession::ask_for_r2ts(Connection& on, std::uint32_t tag, Task& task,
                                    std::uint32_t r2t_sn) {
  const std::uint32_t missing = r2t_sn - task.next_r2t_sn;
  if (missing > kMaxR2tsAhead) {
    drop(on, "an R2TSN is far ahead of what has come");
    return;
  }
  if (missing != 0) {
    SnackRequest request;
    request.type = SnackType::DataOrR2t;
    request.initiator_task_tag = tag;
    send_snack(on, request, {.begin = task.next_r2t_sn, .count = missing});
  }
  for (; task.next_r2t_sn != r2t_sn; ++task.next_r2t_sn) {
    task.missing_r2ts.insert(task.next_r2t_sn);
  }
  ++task.next_r2t_sn;
}

// RFC 7143 §11.7.2, §11.16: all up to here has come.
void InitiatorSession::acknowledge_data(Connection& on, const Task& task,
                                        std::uint32_t transfer_tag) {
  SnackRequest request;
  request.type = SnackType::DataAck;
  request.lun = task.command->lun;
  request.initiator_task_tag = kNoTag;
  request.target_transfer_tag = transfer_tag;
  request.begin = task.data_in.next();
  request.exp_stat_sn = on.statuses.expected();
  on.datamover->send_control(OutgoingPdu{request});
}

// RFC 7143 §7.8: the header is whole, so it is known what is to be sent again.
void InitiatorSession::handle_damaged(Connection& on, const ReceivedPdu& pdu) {
  switch (pdu.basic_header().opcode) {
    case Opcode::DataIn: {
      const auto header = pdu.as<DataIn>();
      if (Task* const task = find_task(on, header.initiator_task_tag)) {
        task->data_in.expect(header.data_sn + 1);
        ask_for_data(on, header.initiator_task_tag, *task);
      } else if (header.has_status) {
        on.statuses.expect(header.stat_sn);
        ask_for_statuses(on);
      }
      return;
    }
    case Opcode::NopIn:
      if (pdu.as<NopIn>().initiator_task_tag == kNoTag) {
        return;  // its StatSN is the next one's; the target asks again
      }
      [[fallthrough]];
    default:
      on.statuses.expect(pdu.as<ScsiResponse>().stat_sn);  // in one place in all
      ask_for_statuses(on);
      return;
  }
}

void InitiatorSession::handle_reject(Connection& on, const ReceivedPdu& pdu) {
  const auto reject = pdu.as<Reject>();
  const auto refuse = [&] {
    // What a target rejects of this end's is a mistake of one of them.
    drop(on, fmt::format("the target rejects a PDU, reason {:02x}h",
                         static_cast<unsigned>(reject.reason)));
  };
  if (level() == 0 || pdu.data.size() < wire::iscsi::kHeaderBytes) {
    refuse();
    return;
  }
  if (!take_numbers(on, reject, true)) {
    return;
  }
  const auto rejected = wire::unpack<ScsiCommand>(pdu.data.first<wire::iscsi::kHeaderBytes>());
  const bool is_command = rejected.opcode == Opcode::ScsiCommand;
  if (reject.reason == RejectReason::TaskInProgress && is_command) {
    return;  // it was sent again, and had come
  }
  if (reject.reason != RejectReason::DataDigestError) {
    refuse();
    return;
  }
  if (is_command) {  // RFC 7143 §7.8: the target has discarded it
    if (const Task* const task = find_task(on, rejected.initiator_task_tag)) {
      ++recoveries_.commands_resent;
      send_task(rejected.initiator_task_tag, *task);
    }
  } else if (rejected.opcode != Opcode::DataOut && rejected.opcode != Opcode::NopOut) {
    refuse();  // data is asked for by an R2T, and a ping is missed by its sender
  }
}

// A ping was answered, so whatever was sent before has come or is lost (RFC 7143 §7.2.1).
void InitiatorSession::recover_within(Connection& on) {
  for (auto& [tag, task] : tasks_) {
    if (task.connection != &on || on.dropped) {
      continue;
    }
    const bool has_come = serial_before(task.cmd_sn, exp_cmd_sn_);
    if (!has_come && serial_before(task.cmd_sn, on.ping_cmd_sn) && !task.aborting) {
      ++recoveries_.commands_resent;
      send_task(tag, task);
      continue;
    }
    task.data_in.ask_again();
    ask_for_data(on, tag, task);
  }
}

void InitiatorSession::check_recovery(Instant now) {
  if (state_ != SessionState::Live || leaving_ || logout_ != Logout::None) {
    return;
  }
  for (const auto& one : connections_) {
    Connection& on = *one;
    if (on.phase != Connection::Phase::Down) {
      continue;
    }
    if (!on.recovery) {
      if (now >= on.retry_at) {
        open(on, now);
      }
    } else if (now >= on.recovery->until) {
      leave(SessionEvent::ConnectionLost, "a lost connection was not recovered in time", now);
      return;
    } else if (now >= on.recovery->due) {
      if (Connection* const via = pick()) {
        send_recovery_logout(on, *via, now);
      }
    }
  }
}

// RFC 7143 §7.2.2: before its tasks can be given another allegiance. Again, when no answer comes.
void InitiatorSession::send_recovery_logout(Connection& lost, Connection& via, Instant now) {
  LogoutRequest request;
  number_immediate(via, request);
  request.reason = LogoutReason::RemoveForRecovery;
  request.initiator_task_tag = next_tag();
  request.cid = lost.cid;
  request.exp_stat_sn = lost.recovery->exp_stat_sn;  // of the lost one (RFC 7143 §11.14.4)
  lost.recovery->logout_tag = request.initiator_task_tag;
  lost.recovery->due = now + options_.recovery_interval;
  via.datamover->send_control(OutgoingPdu{request});
}

void InitiatorSession::recover_tasks(Connection& lost, Connection& via, Instant now) {
  lost.recovery.reset();
  for (auto& [tag, task] : tasks_) {
    if (task.connection == nullptr && task.cid == lost.cid) {
      recover_task(tag, task, via, now);
    }
  }
  // Functions whose answer was lost with it are asked for once more.
  std::vector<Management> again;
  for (auto& [tag, management] : managements_) {
    if (management.connection == nullptr) {
      again.push_back(std::move(management));
      again.back().connection = &via;
    }
  }
  std::erase_if(managements_, [](const auto& entry) { return entry.second.connection == nullptr; });
  for (Management& management : again) {
    send_management(std::move(management), via, now);
  }
}

void InitiatorSession::recover_task(std::uint32_t tag, Task& task, Connection& via, Instant now) {
  task.connection = &via;
  task.cid = via.cid;
  ++via.tasks;
  task.data_in.restart();
  task.missing_r2ts.clear();
  task.owed_acknowledgement.reset();
  task.ending.reset();
  if (!task.aborting && !serial_before(task.cmd_sn, exp_cmd_sn_)) {
    ++recoveries_.commands_resent;  // it was lost with the connection (RFC 7143 §7.2.1)
    send_task(tag, task);
    return;
  }
  // RFC 7143 §11.5.1: after a logout an ABORT TASK may come by another connection.
  send_management({.function = task.aborting ? TaskManagementFunction::AbortTask
                                             : TaskManagementFunction::TaskReassign,
                   .lun = task.command->lun,
                   .referenced_tag = tag,
                   .cmd_sn = task.cmd_sn,
                   .exp_data_sn = task.data_in.next()},
                  via, now);
}

void InitiatorSession::handle_reassigned(Connection& on, const Management& management,
                                         TaskManagementOutcome outcome, Instant now) {
  if (outcome == TaskManagementOutcome::Complete) {
    ++recoveries_.tasks_reassigned;
    return;
  }
  const auto found = tasks_.find(management.referenced_tag);
  if (outcome != TaskManagementOutcome::TaskDoesNotExist) {
    leave(SessionEvent::ConnectionLost, "the target gives a command no other connection", now);
  } else if (found != tasks_.end() && found->second.connection == &on) {
    release(found->second);  // it is over, and nobody knows how
    end_command(found->second.command, {.kind = InitiatorOutcome::Kind::Interrupted});
    tasks_.erase(found);
  }
}

}  // namespace weft::iscsi
