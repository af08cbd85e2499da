// What is no command: pings, asynchronous messages, task management, text, logout (RFC 7143 §11.5,
// §11.6, §11.9, §11.10, §11.14, §11.18, §11.19).

#include <algorithm>
#include <utility>

#include "iscsi/initiator_session.h"
#include "iscsi/planted_bug.h"
#include "wire/iscsi/logout.h"
#include "wire/iscsi/nop.h"
#include "wire/iscsi/text.h"

namespace weft::iscsi {

using wire::iscsi::AsyncEvent;
using wire::iscsi::AsyncMessage;
using wire::iscsi::kNoTag;
using wire::iscsi::LogoutOutcome;
using wire::iscsi::NopIn;
using wire::iscsi::NopOut;
using wire::iscsi::TaskManagementFunction;
using wire::iscsi::TaskManagementOutcome;
using wire::iscsi::TaskManagementRequest;
using wire::iscsi::TaskManagementResponse;

void InitiatorSession::send_ping(Connection& on, Instant now) {
  on.ping_tag = next_tag();
  on.ping_cmd_sn = cmd_sn_;
  on.ping_deadline = now + options_.ping_timeout;
  NopOut ping;
  number_immediate(on, ping);
  ping.initiator_task_tag = on.ping_tag;
  on.datamover->send_control(OutgoingPdu{ping});
}

void InitiatorSession::handle_nop_in(Connection& on, const ReceivedPdu& pdu) {
  const auto nop = pdu.as<NopIn>();
  const bool answers = nop.initiator_task_tag != kNoTag;
  const bool answers_ping = answers && nop.initiator_task_tag == on.ping_tag;
  if (answers_ping) {
    on.statuses.ask_again();
  }
  if (!take_numbers(on, nop, answers)) {
    return;
  }
  if (answers_ping) {
    on.ping_tag = kNoTag;
    on.ping_deadline.reset();
    if (level() > 0) {
      recover_within(on);
    }
  }
  if (nop.target_transfer_tag != kNoTag) {  // RFC 7143 §11.19.1: it wants an answer
    NopOut answer;
    number_immediate(on, answer);
    answer.lun = nop.lun;
    answer.target_transfer_tag = nop.target_transfer_tag;
    on.datamover->send_control(OutgoingPdu{
        answer, {pdu.data.begin(), pdu.data.end()}
    });
  }
}

void InitiatorSession::handle_async(Connection& on, const ReceivedPdu& pdu, Instant now) {
  const auto message = pdu.as<AsyncMessage>();
  if (!take_numbers(on, message, true)) {
    return;
  }
  switch (message.event) {
    case AsyncEvent::Scsi:
      environment_.handle_scsi_event(message.lun,
                                     pdu.data.size() > 2 ? pdu.data.subspan(2) : ByteSpan{});
      break;
    case AsyncEvent::LogoutRequested:
    case AsyncEvent::NegotiationRequested:  // a new login negotiates, too
      if (logout_ == Logout::None) {
        logout_ = Logout::Wanted;
        logout_deadline_ = now + Duration::seconds(message.parameter3);
      }
      break;
    case AsyncEvent::ConnectionDropped:  // whose CID is Parameter1
      wait_before_login_ = Duration::seconds(message.parameter2);
      // One that logs in again is not meant, but the one before it.
      if (message.parameter1 < connections_.size() && connections_[message.parameter1]->is_up()) {
        drop(*connections_[message.parameter1], "the target has dropped the connection");
      }
      break;
    case AsyncEvent::SessionDropped:
      wait_before_login_ = Duration::seconds(message.parameter2);
      leave(SessionEvent::ConnectionLost, "the target has dropped the session", now);
      break;
    case AsyncEvent::TasksTerminated:
    case AsyncEvent::VendorSpecific:
      break;
  }
}

void InitiatorSession::send_logout(Connection& on, Instant now) {
  logout_ = Logout::Sent;
  logout_deadline_ = now + options_.logout_timeout;
  logout_tag_ = next_tag();
  wire::iscsi::LogoutRequest request;
  number_immediate(on, request);
  request.reason = wire::iscsi::LogoutReason::CloseSession;
  request.initiator_task_tag = logout_tag_;
  request.cid = on.cid;
  on.datamover->send_control(OutgoingPdu{request});
}

void InitiatorSession::handle_logout_response(Connection& on, const ReceivedPdu& pdu, Instant now) {
  const auto response = pdu.as<wire::iscsi::LogoutResponse>();
  if (!take_numbers(on, response, true)) {
    return;
  }
  if (logout_ == Logout::Sent && response.initiator_task_tag == logout_tag_) {
    wait_before_login_ = Duration::seconds(response.time_to_wait_seconds);
    leave(SessionEvent::ConnectionLost, "logged out", now);
    return;
  }
  const auto lost = std::ranges::find_if(connections_, [&](const auto& one) {
    return one->recovery && one->recovery->logout_tag == response.initiator_task_tag;
  });
  if (lost == connections_.end() || response.initiator_task_tag == kNoTag) {
    if (level() < 2) {  // else one that was sent twice, perhaps
      drop(on, "the target answers a logout that was not asked for");
    }
  } else if (response.response == LogoutOutcome::Success ||
             response.response == LogoutOutcome::CidNotFound) {
    (*lost)->retry_at = now;
    recover_tasks(**lost, on, now);
  } else {
    leave(SessionEvent::ConnectionLost, "the target does not recover a connection", now);
  }
}

void InitiatorSession::manage(TaskManagementFunction function, std::uint64_t lun,
                              ManagementHandler handler, Instant now) {
  Connection* const on = state_ == SessionState::Live && !leaving_ ? pick() : nullptr;
  if (on != nullptr) {
    send_management(
        {.function = function, .lun = lun, .cmd_sn = cmd_sn_, .handler = std::move(handler)}, *on,
        now);
  } else if (handler) {
    handler(std::nullopt, now);
  }
}

void InitiatorSession::send_management(Management management, Connection& on, Instant now) {
  const std::uint32_t tag = next_tag();
  TaskManagementRequest request;
  number_immediate(on, request);
  request.function = management.function;
  request.lun = management.lun;
  request.initiator_task_tag = tag;
  request.referenced_task_tag = management.referenced_tag;
  const bool aborts = management.function == TaskManagementFunction::AbortTask;
  request.ref_cmd_sn = aborts ? management.cmd_sn : 0;
  request.exp_data_sn = management.exp_data_sn;
  management.deadline = now + options_.management_timeout;
  management.connection = &on;
  managements_.emplace(tag, std::move(management));
  on.datamover->send_control(OutgoingPdu{request});
}

namespace {

// Which commands that were sent before the function have ended with it (RFC 7143 §11.5.1).
enum class Reach : std::uint8_t { None, Task, Unit, Target };

[[nodiscard]] Reach reach_of(TaskManagementFunction function) {
  switch (function) {
    case TaskManagementFunction::AbortTask:
      return Reach::Task;
    case TaskManagementFunction::AbortTaskSet:
    case TaskManagementFunction::ClearTaskSet:
    case TaskManagementFunction::LogicalUnitReset:
      return Reach::Unit;
    case TaskManagementFunction::TargetWarmReset:
    case TaskManagementFunction::TargetColdReset:
    case TaskManagementFunction::NexusReset:
      return Reach::Target;
    case TaskManagementFunction::ClearAca:
    case TaskManagementFunction::TaskReassign:
    case TaskManagementFunction::QueryTask:
    case TaskManagementFunction::QueryTaskSet:
    case TaskManagementFunction::QueryAsyncEvent:
      break;
  }
  return Reach::None;
}

}  // namespace

void InitiatorSession::handle_management_response(Connection& on, const ReceivedPdu& pdu,
                                                  Instant now) {
  const auto response = pdu.as<TaskManagementResponse>();
  if (!take_numbers(on, response, true)) {
    return;
  }
  const auto found = managements_.find(response.initiator_task_tag);
  if (found == managements_.end() || found->second.connection != &on) {
    drop(on, "the target answers a task management function that was not asked for");
    return;
  }
  const Management management = std::move(found->second);
  managements_.erase(found);
  if (management.function == TaskManagementFunction::TaskReassign) {
    handle_reassigned(on, management, response.response, now);
    return;
  }
  const bool of_task = management.function == TaskManagementFunction::AbortTask;
  // A task that does not exist, and has not been answered either, is lost: statuses come in order.
  const bool done = response.response == TaskManagementOutcome::Complete ||
                    (of_task && response.response == TaskManagementOutcome::TaskDoesNotExist);
  if (!done && of_task) {
    drop(on, "the target does not abort a command");
    return;
  }
  if (done) {
    end_managed(management);
  }
  if (management.handler) {
    management.handler(response.response, now);
  }
}

void InitiatorSession::end_managed(const Management& management) {
  const Reach reach = reach_of(management.function);
  std::erase_if(tasks_, [&](auto& entry) {
    const auto& [tag, task] = entry;
    const bool before = serial_before(task.cmd_sn, management.cmd_sn);
    const bool ends = (reach == Reach::Task && tag == management.referenced_tag) ||
                      (reach == Reach::Unit && before && task.command->lun == management.lun) ||
                      (reach == Reach::Target && before);
    if (ends) {
      release(task);
      end_command(task.command, {.kind = InitiatorOutcome::Kind::Aborted});
    }
    return ends;
  });
}

void InitiatorSession::send_text(const TextPair& pair, TextHandler handler, Instant now) {
  Connection* const on = state_ == SessionState::Live && !leaving_ ? pick() : nullptr;
  if (on == nullptr || text_.handler) {
    handler(nullptr, now);
    return;
  }
  text_ = {.connection = on, .tag = next_tag(), .handler = std::move(handler)};
  wire::iscsi::TextRequest request;
  number_immediate(*on, request);
  request.final = true;
  request.initiator_task_tag = text_.tag;
  on->datamover->send_control(text_pdu(request, TextWriter{}.add(pair.key, pair.value).text()));
}

void InitiatorSession::end_text(const TextPairs* pairs, Instant now) {
  if (const TextHandler handler = std::exchange(text_, {}).handler) {
    handler(pairs, now);
  }
}

void InitiatorSession::handle_text_response(Connection& on, const ReceivedPdu& pdu, Instant now) {
  const auto response = pdu.as<wire::iscsi::TextResponse>();
  if (!take_numbers(on, response, true)) {
    return;
  }
  text_.received += to_characters(pdu.data);
  if (response.initiator_task_tag != text_.tag || text_.connection != &on ||
      text_.received.size() > kMaxTextBytes) {
    drop(on, "a text response is not for a request, or too long");
    return;
  }
  if (response.continues || !response.final) {  // RFC 7143 §11.11.1: go on
    wire::iscsi::TextRequest request;
    number_immediate(on, request);
    request.final = true;
    request.initiator_task_tag = text_.tag;
    request.target_transfer_tag = response.target_transfer_tag;
    on.datamover->send_control(OutgoingPdu{request});
    return;
  }
  const std::string text = std::exchange(text_.received, {});
  const auto pairs = parse_text(text);
  end_text(pairs ? &*pairs : nullptr, now);
}

}  // namespace weft::iscsi
