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
using wire::iscsi::NopIn;
using wire::iscsi::NopOut;
using wire::iscsi::TaskManagementFunction;
using wire::iscsi::TaskManagementOutcome;
using wire::iscsi::TaskManagementRequest;
using wire::iscsi::TaskManagementResponse;

void InitiatorSession::send_ping(Instant now) {
  ping_tag_ = next_tag();
  ping_deadline_ = now + options_.ping_timeout;
  NopOut ping;
  ping.immediate = true;
  ping.initiator_task_tag = ping_tag_;
  ping.cmd_sn = cmd_sn_;
  ping.exp_stat_sn = exp_stat_sn_;
  datamover_->send_control(OutgoingPdu{ping});
}

void InitiatorSession::handle_nop_in(const ReceivedPdu& pdu) {
  const auto nop = pdu.as<NopIn>();
  const bool answers = nop.initiator_task_tag != kNoTag;
  if (!take_numbers(nop, answers)) {
    return;
  }
  if (answers && nop.initiator_task_tag == ping_tag_) {
    ping_tag_ = kNoTag;
    ping_deadline_.reset();
  }
  if (nop.target_transfer_tag != kNoTag) {  // RFC 7143 §11.19.1: it wants an answer
    NopOut answer;
    answer.immediate = true;
    answer.lun = nop.lun;
    answer.target_transfer_tag = nop.target_transfer_tag;
    answer.cmd_sn = cmd_sn_;
    answer.exp_stat_sn = exp_stat_sn_;
    datamover_->send_control(OutgoingPdu{
        answer, {pdu.data.begin(), pdu.data.end()}
    });
  }
}

void InitiatorSession::handle_async(const ReceivedPdu& pdu, Instant now) {
  const auto message = pdu.as<AsyncMessage>();
  if (!take_numbers(message, true)) {
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
        check_connection(now);
      }
      break;
    case AsyncEvent::ConnectionDropped:
    case AsyncEvent::SessionDropped:
      wait_before_login_ = Duration::seconds(message.parameter2);
      drop("the target has dropped the session");
      break;
    case AsyncEvent::TasksTerminated:
    case AsyncEvent::VendorSpecific:
      break;
  }
}

void InitiatorSession::send_logout(Instant now) {
  logout_ = Logout::Sent;
  logout_deadline_ = now + options_.logout_timeout;
  wire::iscsi::LogoutRequest request;
  request.immediate = true;
  request.reason = wire::iscsi::LogoutReason::CloseSession;
  request.initiator_task_tag = next_tag();
  request.cmd_sn = cmd_sn_;
  request.exp_stat_sn = exp_stat_sn_;
  datamover_->send_control(OutgoingPdu{request});
}

void InitiatorSession::manage(TaskManagementFunction function, std::uint64_t lun,
                              ManagementHandler handler, Instant now) {
  Management management{.function = function,
                        .lun = lun,
                        .cmd_sn = cmd_sn_,
                        .deadline = {},
                        .handler = std::move(handler)};
  if (state_ == SessionState::Live && datamover_ != nullptr && !dropped_) {
    send_management(std::move(management), now);
  } else if (management.handler) {
    management.handler(std::nullopt, now);
  }
}

void InitiatorSession::send_management(Management management, Instant now) {
  const std::uint32_t tag = next_tag();
  TaskManagementRequest request;
  request.immediate = true;
  request.function = management.function;
  request.lun = management.lun;
  request.initiator_task_tag = tag;
  request.referenced_task_tag = management.referenced_tag;
  request.ref_cmd_sn = management.referenced_tag == kNoTag ? 0 : management.cmd_sn;
  request.cmd_sn = cmd_sn_;
  request.exp_stat_sn = exp_stat_sn_;
  management.deadline = now + options_.management_timeout;
  managements_.emplace(tag, std::move(management));
  datamover_->send_control(OutgoingPdu{request});
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

void InitiatorSession::handle_management_response(const ReceivedPdu& pdu, Instant now) {
  const auto response = pdu.as<TaskManagementResponse>();
  if (!take_numbers(response, true)) {
    return;
  }
  const auto found = managements_.find(response.initiator_task_tag);
  if (found == managements_.end()) {
    drop("the target answers a task management function that was not asked for");
    return;
  }
  const Management management = std::move(found->second);
  managements_.erase(found);
  const bool of_task = management.function == TaskManagementFunction::AbortTask;
  // A task that does not exist, and has not been answered either, is lost: statuses come in order.
  const bool done = response.response == TaskManagementOutcome::Complete ||
                    (of_task && response.response == TaskManagementOutcome::TaskDoesNotExist);
  if (!done && of_task) {
    drop("the target does not abort a command");
    return;
  }
  if (done) {
    const Reach reach = reach_of(management.function);
    std::erase_if(tasks_, [&](auto& entry) {
      const auto& [tag, task] = entry;
      const bool before = serial_before(task.cmd_sn, management.cmd_sn);
      const bool ends = (reach == Reach::Task && tag == management.referenced_tag) ||
                        (reach == Reach::Unit && before && task.command->lun == management.lun) ||
                        (reach == Reach::Target && before);
      if (ends) {
        end_command(task.command, {.kind = InitiatorOutcome::Kind::Aborted});
      }
      return ends;
    });
  }
  if (management.handler) {
    management.handler(response.response, now);
  }
}

void InitiatorSession::send_text(const TextPair& pair, TextHandler handler, Instant now) {
  if (state_ != SessionState::Live || datamover_ == nullptr || dropped_ || text_handler_) {
    handler(nullptr, now);
    return;
  }
  text_tag_ = next_tag();
  text_.clear();
  text_handler_ = std::move(handler);
  wire::iscsi::TextRequest request;
  request.immediate = true;
  request.final = true;
  request.initiator_task_tag = text_tag_;
  request.cmd_sn = cmd_sn_;
  request.exp_stat_sn = exp_stat_sn_;
  datamover_->send_control(text_pdu(request, TextWriter{}.add(pair.key, pair.value).text()));
}

void InitiatorSession::handle_text_response(const ReceivedPdu& pdu, Instant now) {
  const auto response = pdu.as<wire::iscsi::TextResponse>();
  if (!take_numbers(response, true)) {
    return;
  }
  text_ += to_characters(pdu.data);
  if (response.initiator_task_tag != text_tag_ || text_.size() > kMaxTextBytes) {
    drop("a text response is not for a request, or too long");
    return;
  }
  if (response.continues || !response.final) {  // RFC 7143 §11.11.1: go on
    wire::iscsi::TextRequest request;
    request.immediate = true;
    request.final = true;
    request.initiator_task_tag = text_tag_;
    request.target_transfer_tag = response.target_transfer_tag;
    request.cmd_sn = cmd_sn_;
    request.exp_stat_sn = exp_stat_sn_;
    datamover_->send_control(OutgoingPdu{request});
    return;
  }
  text_tag_ = kNoTag;
  const std::string text = std::exchange(text_, {});
  const auto pairs = parse_text(text);
  const TextHandler handler = std::exchange(text_handler_, {});
  handler(pairs ? &*pairs : nullptr, now);
}

}  // namespace weft::iscsi
