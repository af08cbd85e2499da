// The life of a session: connections, logins, timers, and the ends of commands.

#include "iscsi/initiator_session.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "iscsi/planted_bug.h"
#include "wire/iscsi/logout.h"
#include "wire/iscsi/nop.h"
#include "wire/iscsi/reject.h"
#include "wire/iscsi/text.h"

namespace weft::iscsi {

using wire::iscsi::kNoTag;
using wire::iscsi::Opcode;

void InitiatorSession::apply(SessionEvent event, std::string_view reason, Instant now) {
  const SessionTransition step = transition(state_, event);
  const bool changes = step.next != state_;
  state_ = step.next;
  if (!reason.empty()) {
    reason_ = reason;
  }
  perform(step.action, now);
  if (changes) {
    environment_.handle_state(state_, reason_);
  }
  tell_ended(now);
}

void InitiatorSession::perform(SessionAction action, Instant now) {
  switch (action) {
    case SessionAction::Ignore:
      break;
    case SessionAction::Connect:
      connect(now);
      break;
    case SessionAction::Resume:
      reason_.clear();
      reconnect_deadline_ = fast_fail_deadline_ = dev_loss_deadline_ = Instant::never();
      send_waiting(now);
      break;
    case SessionAction::Report:
      end_waiting(InitiatorOutcome::Kind::NotSent);
      break;
    case SessionAction::Block:
      block(now);
      break;
    case SessionAction::ArmReconnect:
      reconnect_deadline_ = now + std::max(options_.reconnect_delay, wait_before_login_);
      break;
    case SessionAction::FailWaiting:
      fast_fail_deadline_ = Instant::never();
      end_waiting(InitiatorOutcome::Kind::NotSent);
      break;
    case SessionAction::LogOut:
      logout_ = Logout::Wanted;
      logout_deadline_ = now + options_.logout_timeout;
      break;
    case SessionAction::GiveUp:
    case SessionAction::End:
      reconnect_deadline_ = fast_fail_deadline_ = dev_loss_deadline_ = Instant::never();
      if (std::exchange(connecting_, false)) {
        environment_.cancel_connect();
      }
      drop("the session has ended");
      end_under_way(now);
      end_waiting(InitiatorOutcome::Kind::NotSent);
      break;
  }
}

void InitiatorSession::start(Instant now) {
  WEFT_ASSERT(datamover_ == nullptr, "the last connection is gone");
  apply(SessionEvent::Start, {}, now);
}

void InitiatorSession::stop(Instant now) {
  apply(SessionEvent::Stop, "stopped", now);
  check_connection(now);
}

void InitiatorSession::connect(Instant now) {
  reconnect_deadline_ = Instant::never();
  login_deadline_ = now + options_.login_timeout;
  connecting_ = true;
  environment_.connect(address_.empty() ? options_.address : address_);
}

// RFC 7143 §7.1.4.4: a session that is lost takes its commands along.
void InitiatorSession::block(Instant now) {
  reconnect_deadline_ = now + std::max(options_.reconnect_delay, wait_before_login_);
  fast_fail_deadline_ = now + options_.fast_fail;
  dev_loss_deadline_ = now + options_.dev_loss;
  end_under_way(now);
}

void InitiatorSession::reset_connection() {
  datamover_ = nullptr;
  dropped_ = false;
  login_.reset();
  login_deadline_ = Instant::never();
  ping_deadline_.reset();
  ping_tag_ = kNoTag;
  logout_ = Logout::None;
  logout_deadline_ = Instant::never();
}

void InitiatorSession::drop(std::string_view reason) {
  if (datamover_ == nullptr || dropped_) {
    return;
  }
  dropped_ = true;
  reason_ = reason;
  datamover_->terminate(Datamover::Ending::AtOnce, reason);
}

void InitiatorSession::end_command(InitiatorCommand* command, InitiatorOutcome outcome) {
  ended_.push_back({.command = command, .outcome = std::move(outcome)});
}

void InitiatorSession::end_waiting(InitiatorOutcome::Kind kind) {
  for (InitiatorCommand* const command : std::exchange(waiting_, {})) {
    end_command(command, {.kind = kind});
  }
}

void InitiatorSession::end_under_way(Instant now) {
  for (const auto& [tag, task] : std::exchange(tasks_, {})) {
    const auto kind =
        task.aborting ? InitiatorOutcome::Kind::Aborted : InitiatorOutcome::Kind::Interrupted;
    end_command(task.command, {.kind = planted(PlantedBug::InterruptedTakenAsDone)
                                           ? InitiatorOutcome::Kind::Answered
                                           : kind});
  }
  for (auto& [tag, management] : std::exchange(managements_, {})) {
    if (management.handler) {
      management.handler(std::nullopt, now);
    }
  }
  text_tag_ = kNoTag;
  if (const TextHandler handler = std::exchange(text_handler_, {})) {
    handler(nullptr, now);
  }
}

// Clients may submit from inside, so what they are told is taken out first.
void InitiatorSession::tell_ended(Instant now) {
  if (std::exchange(telling_, true)) {
    return;
  }
  while (!ended_.empty()) {
    for (const Ended& ended : std::exchange(ended_, {})) {
      ended.command->client->handle_outcome(*ended.command, ended.outcome, now);
    }
  }
  telling_ = false;
}

void InitiatorSession::handle_connected(Datamover& datamover, Instant now) {
  WEFT_ASSERT(connecting_ && datamover_ == nullptr, "a connection answers connect()");
  connecting_ = false;
  datamover_ = &datamover;
  last_heard_ = now;
  datamover_->limit(options_.preferences);
  // A new session, whatever became of the last one: CmdSN and StatSN begin anew.
  login_.emplace(options_, environment_.chap_library(), cmd_sn_);
  datamover_->send_control(login_->begin());
}

void InitiatorSession::handle_connect_failed(std::string_view reason, Instant now) {
  connecting_ = false;
  address_.clear();
  reset_connection();
  apply(SessionEvent::LoginFailed, reason, now);
}

void InitiatorSession::handle_lost(std::string_view reason, Instant now) {
  const std::string why{dropped_ ? reason_ : std::string{reason}};
  reset_connection();
  const bool logs_in = state_ == SessionState::Connecting || state_ == SessionState::Blocked ||
                       state_ == SessionState::FailFast;
  if (std::exchange(redirected_, false) && logs_in && redirections_++ < kMaxRedirections) {
    connect(now);
    return;
  }
  address_.clear();
  apply(SessionEvent::ConnectionLost, why, now);
}

void InitiatorSession::handle_pdu(const ReceivedPdu& pdu, Instant now) {
  if (dropped_ || datamover_ == nullptr) {
    return;
  }
  last_heard_ = now;
  if (login_) {
    handle_login(pdu, now);
  } else if (pdu.data_is_damaged && !planted(PlantedBug::DigestIgnored)) {
    drop("a data digest is wrong");  // level 0 has no other way (RFC 7143 §7.8)
  } else {
    handle_full_feature(pdu, now);
  }
  if (!dropped_) {
    send_waiting(now);
    check_connection(now);
  }
  tell_ended(now);
}

void InitiatorSession::handle_data_fetched(std::uint32_t /*tag*/, Instant /*now*/) {
  drop("the datamover fetches, which is a target's");
}

void InitiatorSession::handle_login(const ReceivedPdu& pdu, Instant now) {
  if (pdu.basic_header().opcode != Opcode::LoginResponse) {
    drop("the target answers a login with something else");
    return;
  }
  auto next = login_->take(pdu);
  if (!next) {
    drop(next.error().reason);
    return;
  }
  if (next->has_value()) {
    datamover_->send_control(std::move(**next));
    return;
  }
  if (!login_->moved_to().empty()) {  // "HOST:PORT,TAG" (RFC 7143 §13.8)
    address_ = login_->moved_to().substr(0, login_->moved_to().find(','));
    redirected_ = true;
    drop("the target redirects the login");
    return;
  }
  agreed_ = login_->agreed();
  const wire::iscsi::LoginResponse& last = login_->last_response();
  exp_stat_sn_ = login_->exp_stat_sn();
  exp_cmd_sn_ = last.exp_cmd_sn;
  max_cmd_sn_ = last.max_cmd_sn;
  wait_before_login_ = {};
  address_.clear();  // after a loss the target may say something else
  redirections_ = 0;
  login_.reset();
  login_deadline_ = Instant::never();
  datamover_->agree(agreed_);
  datamover_->enable(agreed_.header_digest, agreed_.data_digest,
                     options_.preferences.values.max_recv_data_segment_length);
  apply(SessionEvent::LoginDone, {}, now);
}

void InitiatorSession::handle_full_feature(const ReceivedPdu& pdu, Instant now) {
  switch (pdu.basic_header().opcode) {
    case Opcode::DataIn:
      return handle_data_in(pdu);
    case Opcode::R2t:
      return handle_r2t(pdu);
    case Opcode::ScsiResponse:
      return handle_scsi_response(pdu);
    case Opcode::NopIn:
      return handle_nop_in(pdu);
    case Opcode::TaskManagementResponse:
      return handle_management_response(pdu, now);
    case Opcode::AsyncMessage:
      return handle_async(pdu, now);
    case Opcode::TextResponse:
      return handle_text_response(pdu, now);
    case Opcode::LogoutResponse: {
      const auto response = pdu.as<wire::iscsi::LogoutResponse>();
      wait_before_login_ = Duration::seconds(response.time_to_wait_seconds);
      return drop("logged out");
    }
    case Opcode::Reject:
      // What a target rejects of this end's is a mistake of one of them; level 0 begins anew.
      return drop(fmt::format("the target rejects a PDU, reason {:02x}h",
                              static_cast<unsigned>(pdu.as<wire::iscsi::Reject>().reason)));
    default:
      return drop("the target sends what a target does not send");
  }
}

void InitiatorSession::handle_timeout(Instant now) {
  if (now >= reconnect_deadline_) {
    reconnect_deadline_ = Instant::never();
    apply(SessionEvent::ReconnectDue, {}, now);
  }
  if (now >= fast_fail_deadline_) {
    fast_fail_deadline_ = Instant::never();
    apply(SessionEvent::FastFailDue, {}, now);
  }
  if (now >= dev_loss_deadline_) {
    dev_loss_deadline_ = Instant::never();
    apply(SessionEvent::DevLossDue, "the target did not come back", now);
  }
  if (now >= login_deadline_) {
    login_deadline_ = Instant::never();
    if (std::exchange(connecting_, false)) {
      environment_.cancel_connect();
      handle_connect_failed("the target does not answer", now);
    } else {
      drop("the login takes too long");
    }
  }
  check_connection(now);
  check_commands(now);
  tell_ended(now);
}

void InitiatorSession::check_connection(Instant now) {
  if (datamover_ == nullptr || dropped_ || login_) {
    return;
  }
  if (logout_ == Logout::Wanted && (tasks_.empty() || now >= logout_deadline_)) {
    send_logout(now);
  } else if (logout_ == Logout::Sent && now >= logout_deadline_) {
    drop("the target does not answer a logout");
  }
  if (ping_deadline_ && now >= *ping_deadline_) {
    drop("the target does not answer a ping");
  } else if (!ping_deadline_ && now >= last_heard_ + options_.ping_interval) {
    send_ping(now);
  }
}

void InitiatorSession::check_commands(Instant now) {
  if (datamover_ == nullptr || dropped_) {
    return;
  }
  for (const auto& [tag, management] : managements_) {
    if (now >= management.deadline) {
      drop("the target does not answer a task management function");
      return;
    }
  }
  std::vector<InitiatorCommand*> late;
  for (const auto& [tag, task] : tasks_) {
    if (!task.aborting && now >= task.deadline) {
      late.push_back(task.command);
    }
  }
  for (InitiatorCommand* const command : late) {
    abort(*command, now);
  }
}

Instant InitiatorSession::deadline() const {
  Instant soonest =
      std::min({reconnect_deadline_, fast_fail_deadline_, dev_loss_deadline_, login_deadline_});
  if (datamover_ == nullptr || dropped_ || login_) {
    return soonest;
  }
  soonest = std::min(
      {soonest, logout_deadline_, ping_deadline_.value_or(last_heard_ + options_.ping_interval)});
  for (const auto& [tag, management] : managements_) {
    soonest = std::min(soonest, management.deadline);
  }
  for (const auto& [tag, task] : tasks_) {
    soonest = task.aborting ? soonest : std::min(soonest, task.deadline);
  }
  return soonest;
}

}  // namespace weft::iscsi
