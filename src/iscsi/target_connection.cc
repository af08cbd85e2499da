#include "iscsi/target_connection.h"

#include <algorithm>
#include <utility>

#include "iscsi/serial.h"
#include "iscsi/target_server.h"
#include "wire/iscsi/nop.h"

namespace weft::iscsi {

using wire::iscsi::AsyncEvent;
using wire::iscsi::kNoTag;
using wire::iscsi::LogoutOutcome;
using wire::iscsi::LogoutReason;
using wire::iscsi::LogoutRequest;
using wire::iscsi::LogoutResponse;
using wire::iscsi::NopIn;
using wire::iscsi::NopOut;
using wire::iscsi::Opcode;
using wire::iscsi::RejectReason;

TargetConnection::TargetConnection(TargetServer& server, Datamover& datamover, Instant now)
    : server_(server),
      datamover_(datamover),
      preferences_(server.options_.preferences),
      last_heard_(now),
      login_deadline_(now + server.options_.login_timeout) {
  datamover_.limit(preferences_);
  login_.emplace();
}

TargetConnection::~TargetConnection() = default;

std::uint32_t TargetConnection::recovery_level() const {
  return session_ == nullptr ? 0 : session_->parameters().error_recovery_level;
}

void TargetConnection::handle_pdu(const ReceivedPdu& pdu, Instant now) {
  if (phase_ == Phase::Closed) {
    return;
  }
  last_heard_ = now;
  ping_deadline_.reset();
  server_.completions_->begin();
  if (phase_ == Phase::Login) {
    handle_login(pdu, now);
  } else {
    handle_full_feature(pdu, now);
  }
  server_.drain(now);
}

void TargetConnection::handle_lost(std::string_view reason, Instant now) {
  server_.completions_->begin();
  fail_connection(reason, now);
  server_.drain(now);
  server_.forget(*this);  // the last act: this connection is no more
}

void TargetConnection::end(Datamover::Ending ending, std::string_view reason, bool recovers,
                           Instant now) {
  if (phase_ == Phase::Closed) {
    return;
  }
  phase_ = Phase::Closed;
  TargetSession* const session = std::exchange(session_, nullptr);
  if (session != nullptr) {
    session->detach(cid_, recovers, now);
    if (session->connections().empty() && !recovers) {
      server_.close_session_unless_held(*session, reason, now);
    }
  }
  sent_.clear();
  datamover_.terminate(ending, reason);
}

// RFC 7143 §7.1: below level 2 the loss of a connection is the loss of the session.
void TargetConnection::fail_connection(std::string_view reason, Instant now) {
  TargetSession* const session = session_;
  const bool recovers = recovery_level() == 2;
  end(Datamover::Ending::AtOnce, reason, recovers, now);
  if (session != nullptr && !recovers) {
    server_.close_session(*session, reason, now);
  }
}

Instant TargetConnection::deadline() const {
  if (phase_ == Phase::Closed) {
    return Instant::never();
  }
  if (phase_ == Phase::Login) {
    return login_deadline_;
  }
  Instant first = ping_deadline_.value_or(last_heard_ + server_.options_.ping_interval);
  if (recovery_level() > 0) {
    for (const auto& [tag, task] : session_->tasks()) {
      first = task->connection == this ? std::min(first, task->data_deadline) : first;
    }
  }
  return first;
}

void TargetConnection::handle_timeout(Instant now) {
  if (now < deadline()) {
    return;
  }
  if (phase_ == Phase::Login) {
    end(Datamover::Ending::AtOnce, "the login takes too long", false, now);
    return;
  }
  if (ping_deadline_ && now >= *ping_deadline_) {
    fail_connection("the initiator does not answer a ping", now);
    return;
  }
  if (!ping_deadline_ && now >= last_heard_ + server_.options_.ping_interval) {
    NopIn ping;  // RFC 7143 §11.19: with a Target Transfer Tag it wants an answer
    ping.target_transfer_tag = session_->next_transfer_tag();
    number(ping);
    datamover_.send_control(OutgoingPdu{ping});
    ping_deadline_ = now + server_.options_.ping_timeout;
  }
  std::vector<std::shared_ptr<TargetTask>> late;
  for (const auto& [tag, task] : session_->tasks()) {
    if (task->connection == this && now >= task->data_deadline) {
      late.push_back(task);
    }
  }
  for (const std::shared_ptr<TargetTask>& task : late) {  // the last Data-Out was lost
    task->writes->ask_again();
    request_data(task, now);
  }
}

void TargetConnection::take_acknowledgement(std::uint32_t exp_stat_sn) {
  while (!sent_.empty() && serial_before(sent_.front().stat_sn, exp_stat_sn)) {
    const std::shared_ptr<TargetTask> task = std::move(sent_.front().task);
    sent_.pop_front();
    if (task != nullptr && task->session == session_) {
      session_->remove_task(task->tag());
    }
  }
}

void TargetConnection::reject(const ReceivedPdu& pdu, RejectReason reason) {
  wire::iscsi::Reject header{.reason = reason};
  send_status(header, {pdu.header.begin(), pdu.header.end()}, nullptr);
}

// A logout whose ExpStatSN is that of the connection which it names (RFC 7143 §11.14.4).
bool TargetConnection::is_of_lost_connection(const ReceivedPdu& pdu) const {
  if (pdu.basic_header().opcode != Opcode::LogoutRequest) {
    return false;
  }
  const auto request = pdu.as<LogoutRequest>();
  return request.reason == LogoutReason::RemoveForRecovery && request.cid != cid_;
}

void TargetConnection::handle_full_feature(const ReceivedPdu& pdu, Instant now) {
  const auto basic = pdu.basic_header();
  const auto request = pdu.as<NopOut>();  // CmdSN and ExpStatSN are in one place in all requests
  if (!is_of_lost_connection(pdu)) {
    take_acknowledgement(request.exp_stat_sn);
  }
  if (pdu.data_is_damaged && basic.opcode != Opcode::DataOut) {  // RFC 7143 §7.8
    reject(pdu, RejectReason::DataDigestError);
    if (recovery_level() == 0) {
      end(Datamover::Ending::AfterOutput, "a data digest is wrong", false, now);
    }
    return;
  }
  const bool is_discovery = session_->identity().is_discovery;
  switch (basic.opcode) {
    case Opcode::ScsiCommand:
    case Opcode::TaskManagementRequest:
      if (is_discovery) {  // RFC 7143 §4.3: only text and logout
        reject(pdu, RejectReason::ProtocolError);
      } else if (basic.opcode == Opcode::ScsiCommand) {
        handle_command(pdu, now);
      } else {
        take_in_order(pdu, request.cmd_sn, now);
      }
      return;
    case Opcode::DataOut:
      handle_data_out(pdu, now);
      return;
    case Opcode::SnackRequest:
      handle_snack(pdu, now);
      return;
    case Opcode::NopOut:
      if (basic.initiator_task_tag == kNoTag) {
        return;  // answers our ping; it has no CmdSN of its own (RFC 7143 §11.18.1)
      }
      take_in_order(pdu, request.cmd_sn, now);
      return;
    case Opcode::TextRequest:
    case Opcode::LogoutRequest:
      take_in_order(pdu, request.cmd_sn, now);
      return;
    case Opcode::LoginRequest:
      reject(pdu, RejectReason::ProtocolError);
      return;
    case Opcode::NopIn:
    case Opcode::ScsiResponse:
    case Opcode::TaskManagementResponse:
    case Opcode::LoginResponse:
    case Opcode::TextResponse:
    case Opcode::DataIn:
    case Opcode::LogoutResponse:
    case Opcode::R2t:
    case Opcode::AsyncMessage:
    case Opcode::Reject:
      break;
  }
  reject(pdu, RejectReason::CommandNotSupported);
}

void TargetConnection::take_in_order(const ReceivedPdu& pdu, std::uint32_t cmd_sn, Instant now) {
  HeldRequest request{
      .connection = this,
      .task = nullptr,
      .header = {},
      .data = {pdu.data.begin(), pdu.data.end()}
  };
  std::ranges::copy(pdu.header, request.header.begin());
  if (pdu.basic_header().immediate) {
    perform(request, now);
  } else {
    session_->take(cmd_sn, std::move(request), now);
  }
}

void TargetConnection::perform(const HeldRequest& request, Instant now) {
  if (phase_ != Phase::FullFeature) {
    return;
  }
  switch (wire::unpack<wire::iscsi::BasicHeader>(request.header).opcode) {
    case Opcode::NopOut:
      handle_nop_out(request);
      break;
    case Opcode::TextRequest:
      handle_text(request, now);
      break;
    case Opcode::LogoutRequest:
      handle_logout(request, now);
      break;
    case Opcode::TaskManagementRequest:
      handle_management(wire::unpack<wire::iscsi::TaskManagementRequest>(request.header), now);
      break;
    default:
      break;  // nothing else is held
  }
}

void TargetConnection::handle_nop_out(const HeldRequest& request) {
  const auto ping = wire::unpack<NopOut>(request.header);
  NopIn echo;
  echo.lun = ping.lun;
  echo.initiator_task_tag = ping.initiator_task_tag;
  const std::size_t bytes =  // RFC 7143 §11.19.2: as much as the initiator takes
      std::min<std::size_t>(request.data.size(), parameters_.max_recv_data_segment_length);
  send_status(echo,
              {request.data.begin(), request.data.begin() + static_cast<std::ptrdiff_t>(bytes)},
              nullptr);
}

void TargetConnection::handle_logout(const HeldRequest& held, Instant now) {
  const auto request = wire::unpack<LogoutRequest>(held.header);
  LogoutResponse response;
  response.initiator_task_tag = request.initiator_task_tag;
  const Parameters& agreed = session_->parameters();
  response.time_to_wait_seconds = static_cast<std::uint16_t>(agreed.default_time2wait);
  response.time_to_retain_seconds = static_cast<std::uint16_t>(agreed.default_time2retain);
  TargetSession* const session = session_;
  const auto other = session->connections().find(request.cid);
  const bool names_this = request.cid == cid_;
  switch (request.reason) {
    case LogoutReason::CloseSession:
      send_status(response, {}, nullptr);
      server_.close_session(*session, "logout", now);
      return;
    case LogoutReason::CloseConnection:
      if (other == session->connections().end()) {
        response.response = LogoutOutcome::CidNotFound;
      }
      break;
    case LogoutReason::RemoveForRecovery:
      if (agreed.error_recovery_level < 2) {
        response.response = LogoutOutcome::RecoveryNotSupported;
      } else if (other == session->connections().end() && !session->is_recovering(request.cid)) {
        response.response = LogoutOutcome::CidNotFound;
      }
      break;
    default:
      response.response = LogoutOutcome::CleanupFailed;
      break;
  }
  const bool recovers = request.reason == LogoutReason::RemoveForRecovery;
  const bool ends = response.response == LogoutOutcome::Success;
  if (ends && !names_this && other != session->connections().end()) {
    other->second->end(Datamover::Ending::AtOnce, "logout by another connection", recovers, now);
  }
  if (ends && recovers && !names_this) {
    session->acknowledge_lost(request.cid, request.exp_stat_sn);
  }
  send_status(response, {}, nullptr);
  if (ends && names_this) {
    end(Datamover::Ending::AfterOutput, "logout", recovers, now);
  }
}

void TargetConnection::send_async(AsyncEvent event, std::uint16_t parameter1,
                                  std::uint16_t parameter2, std::uint16_t parameter3) {
  if (phase_ == Phase::FullFeature) {
    send_status(wire::iscsi::AsyncMessage{.event = event,
                                          .parameter1 = parameter1,
                                          .parameter2 = parameter2,
                                          .parameter3 = parameter3},
                {}, nullptr);
  }
}

}  // namespace weft::iscsi
