// The connections of a session: how they come, what they hear, and what follows when one is lost.

#include "iscsi/initiator_connection.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "iscsi/initiator_session.h"
#include "iscsi/planted_bug.h"
#include "wire/iscsi/login.h"

namespace weft::iscsi {

using wire::iscsi::kNoTag;
using wire::iscsi::LoginStatus;
using wire::iscsi::Opcode;
using Phase = InitiatorConnection::Phase;

void InitiatorConnection::handle_pdu(const ReceivedPdu& pdu, Instant now) {
  session.handle_pdu(*this, pdu, now);
}

void InitiatorConnection::handle_data_fetched(std::uint32_t /*tag*/, Instant /*now*/) {
  session.drop(*this, "the datamover fetches, which is a target's");
}

void InitiatorConnection::handle_agreed(Instant now) { session.handle_agreed(*this, now); }

void InitiatorConnection::handle_lost(std::string_view why, Instant now) {
  session.handle_lost(*this, why, now);
}

void InitiatorConnection::reset() {
  phase = Phase::Down;
  datamover = nullptr;
  dropped = false;
  reason.clear();
  login.reset();
  login_deadline = Instant::never();
  statuses = StatusNumbers{};
  tasks = 0;
  ping_deadline.reset();
  ping_tag = kNoTag;
}

bool InitiatorSession::is_all_down() const {
  return std::ranges::all_of(connections_,
                             [](const auto& one) { return one->phase == Phase::Down; });
}

InitiatorConnection* InitiatorSession::pick() const {
  Connection* best = nullptr;
  for (const auto& one : connections_) {
    if (one->is_up() && (best == nullptr || one->tasks < best->tasks)) {
      best = one.get();
    }
  }
  return best;
}

void InitiatorSession::open(Connection& on, Instant now) {
  on.retry_at = Instant::never();
  on.login_deadline = now + options_.login_timeout;
  on.phase = Phase::Connecting;
  const bool joins = state_ == SessionState::Live;
  const std::string& address = joins ? portal_ : address_.empty() ? options_.address : address_;
  if (!joins) {
    portal_ = address;
  }
  environment_.connect(on.cid, address);
}

// The session's other connections (RFC 7143 §6.3), as many as both ends want.
void InitiatorSession::open_others(Instant now) {
  for (std::size_t i = 0; i < connections_.size() && i < agreed_.max_connections; ++i) {
    Connection& one = *connections_[i];
    if (one.phase == Phase::Down && !one.recovery && tsih_ != 0) {
      open(one, now);
    }
  }
}

void InitiatorSession::close(Connection& on, std::string_view reason) {
  on.retry_at = Instant::never();
  if (on.phase == Phase::Connecting) {
    environment_.cancel_connect(on.cid);
    on.reset();
  } else {
    drop(on, reason);
  }
}

void InitiatorSession::drop(Connection& on, std::string_view reason) {
  if (on.datamover == nullptr || on.dropped) {
    return;
  }
  on.dropped = true;
  on.reason = reason;
  on.datamover->terminate(Datamover::Ending::AtOnce, reason);
}

// All connections end, and then `event` happens. A session that is lost is not suspended any more.
void InitiatorSession::leave(SessionEvent event, std::string_view reason, Instant /*now*/) {
  if (!leaving_ || event == SessionEvent::ConnectionLost) {
    leaving_ = event;
    reason_ = reason;
  }
  for (const auto& one : connections_) {
    close(*one, reason);
  }
}

void InitiatorSession::check_left(Instant now) {
  if (!leaving_ || !is_all_down()) {
    return;
  }
  logout_ = Logout::None;
  logout_tag_ = kNoTag;
  logout_deadline_ = Instant::never();
  const SessionEvent event = *std::exchange(leaving_, std::nullopt);
  apply(state_ == SessionState::Live ? event : SessionEvent::ConnectionLost, {}, now);
}

void InitiatorSession::handle_connected(std::uint16_t cid, Datamover& datamover, Instant now) {
  Connection& on = *connections_[cid];
  WEFT_ASSERT(on.phase == Phase::Connecting, "a connection answers connect()");
  on.phase = Phase::LoggingIn;
  on.datamover = &datamover;
  on.last_heard = now;
  datamover.limit(options_.preferences);
  on.login.emplace(options_, environment_.chap_library(),
                   LoginPlace{.cmd_sn = cmd_sn_,
                              .cid = cid,
                              .tsih = tsih_,
                              .exp_stat_sn = on.recovery ? on.recovery->exp_stat_sn : 0,
                              .session = agreed_});
  datamover.send_control(on.login->begin());
}

void InitiatorSession::handle_connect_failed(std::uint16_t cid, std::string_view reason,
                                             Instant now) {
  Connection& on = *connections_[cid];
  on.reset();
  if (state_ == SessionState::Live) {  // it was to join; the session has others
    on.retry_at = now + options_.reconnect_delay;
    check_left(now);
    return;
  }
  address_.clear();
  apply(SessionEvent::LoginFailed, reason, now);
}

void InitiatorSession::handle_lost(Connection& on, std::string_view reason, Instant now) {
  const std::string why{on.dropped ? on.reason : std::string{reason}};
  const bool was_up = on.phase == Phase::Up;
  const std::uint32_t exp_stat_sn = on.statuses.expected();
  if (text_.connection == &on) {
    end_text(nullptr, now);
  }
  on.reset();
  if (was_up) {
    lose_connection(on, exp_stat_sn, why, now);
  } else if (leaving_) {
    // check_left() does the rest.
  } else if (state_ == SessionState::Live) {
    on.retry_at = now + options_.reconnect_delay;
  } else {
    lose_login(why, now);
  }
  check_left(now);
  tell_ended(now);
}

// The login of the session itself.
void InitiatorSession::lose_login(const std::string& why, Instant now) {
  const bool logs_in = state_ == SessionState::Connecting || state_ == SessionState::Blocked ||
                       state_ == SessionState::FailFast;
  if (std::exchange(redirected_, false) && logs_in && redirections_++ < kMaxRedirections) {
    open(*connections_.front(), now);
    return;
  }
  address_.clear();
  apply(SessionEvent::ConnectionLost, why, now);
}

// RFC 7143 §7.1: below level 2 the loss of a connection is the loss of the session.
void InitiatorSession::lose_connection(Connection& on, std::uint32_t exp_stat_sn,
                                       const std::string& why, Instant now) {
  for (auto& [tag, task] : tasks_) {
    if (task.connection == &on) {
      task.connection = nullptr;
    }
  }
  std::erase_if(managements_, [&](const auto& entry) {  // those of one task come again with it
    return entry.second.connection == &on && entry.second.referenced_tag != kNoTag;
  });
  for (auto& [tag, management] : managements_) {
    if (management.connection == &on) {
      management.connection = nullptr;
      management.deadline = Instant::never();
    }
  }
  const bool recovers = level() == 2 && agreed_.default_time2retain != 0 && tsih_ != 0 &&
                        logout_ == Logout::None && state_ == SessionState::Live &&
                        leaving_ != SessionEvent::ConnectionLost;
  if (!recovers) {
    if (state_ == SessionState::Live || state_ == SessionState::LoggingOut) {
      leave(SessionEvent::ConnectionLost, leaving_ ? reason_ : why, now);
    }
    return;
  }
  const Instant due = now + time_to_wait();
  on.recovery.emplace(
      Connection::Recovery{.due = due,
                           .until = due + Duration::seconds(agreed_.default_time2retain),
                           .exp_stat_sn = exp_stat_sn});
  if (pick() == nullptr) {
    leave(SessionEvent::Suspended, why, now);
  }
}

void InitiatorSession::handle_pdu(Connection& on, const ReceivedPdu& pdu, Instant now) {
  if (on.dropped || on.datamover == nullptr) {
    return;
  }
  on.last_heard = now;
  if (on.login) {
    handle_login(on, pdu, now);
  } else if (!pdu.data_is_damaged || planted(PlantedBug::DigestIgnored)) {
    handle_full_feature(on, pdu, now);
  } else if (level() == 0) {
    drop(on, "a data digest is wrong");  // level 0 has no other way (RFC 7143 §7.8)
  } else {
    handle_damaged(on, pdu);
  }
  settle(on, now);
}

void InitiatorSession::handle_agreed(Connection& on, Instant now) {
  if (on.dropped || !on.login) {
    return;
  }
  on.last_heard = now;
  finish_login(on, now);
  settle(on, now);
}

// What may follow from what a connection heard.
void InitiatorSession::settle(Connection& on, Instant now) {
  send_waiting(now);
  check_connection(on, now);
  check_session(now);
  check_left(now);
  tell_ended(now);
}

void InitiatorSession::handle_login(Connection& on, const ReceivedPdu& pdu, Instant now) {
  if (pdu.basic_header().opcode != Opcode::LoginResponse) {
    drop(on, "the target answers a login with something else");
    return;
  }
  InitiatorLogin& login = *on.login;
  auto next = login.take(pdu);
  const bool is_of_session = state_ != SessionState::Live;
  if (!next) {
    const LoginStatus status = login.last_response().status;
    // LIO counts a connection that a login restarts until it is freed, some time after that.
    const bool is_known = status == LoginStatus::TooManyConnections;
    if (is_of_session && tsih_ != 0 && std::to_underlying(status) >> 8 == 2 && !is_known) {
      forget_session(now);  // the target does not know it any more
    }
    drop(on, next.error().reason);
    return;
  }
  if (next->has_value()) {
    on.datamover->send_control(std::move(**next));
    return;
  }
  if (!login.moved_to().empty()) {  // "HOST:PORT,TAG" (RFC 7143 §13.8)
    if (is_of_session) {
      address_ = login.moved_to().substr(0, login.moved_to().find(','));
      redirected_ = true;
    }
    drop(on, "the target redirects the login");
    return;
  }
  if (on.datamover->agree(login.agreed())) {
    finish_login(on, now);
  }
}

void InitiatorSession::finish_login(Connection& on, Instant now) {
  const InitiatorLogin& login = *on.login;
  const wire::iscsi::LoginResponse& last = login.last_response();
  on.agreed = login.agreed();
  on.statuses = StatusNumbers{login.exp_stat_sn()};
  if (tsih_ == 0) {
    agreed_ = on.agreed;
    tsih_ = login.tsih();
    exp_cmd_sn_ = last.exp_cmd_sn;
    max_cmd_sn_ = last.max_cmd_sn;
  } else {
    take_window(last);
  }
  wait_before_login_ = {};
  address_.clear();  // after a loss the target may say something else
  redirections_ = 0;
  on.login.reset();
  on.login_deadline = Instant::never();
  on.phase = Phase::Up;
  on.datamover->enable(on.agreed.header_digest, on.agreed.data_digest,
                       options_.preferences.values.max_recv_data_segment_length);
  if (on.recovery) {  // a login with its CID has logged the lost one out (RFC 7143 §6.3.4)
    recover_tasks(on, on, now);
  }
  if (state_ != SessionState::Live) {
    apply(SessionEvent::LoginDone, {}, now);
  }
}

void InitiatorSession::handle_full_feature(Connection& on, const ReceivedPdu& pdu, Instant now) {
  switch (pdu.basic_header().opcode) {
    case Opcode::DataIn:
      return handle_data_in(on, pdu);
    case Opcode::R2t:
      return handle_r2t(on, pdu);
    case Opcode::ScsiResponse:
      return handle_scsi_response(on, pdu);
    case Opcode::NopIn:
      return handle_nop_in(on, pdu);
    case Opcode::TaskManagementResponse:
      return handle_management_response(on, pdu, now);
    case Opcode::AsyncMessage:
      return handle_async(on, pdu, now);
    case Opcode::TextResponse:
      return handle_text_response(on, pdu, now);
    case Opcode::LogoutResponse:
      return handle_logout_response(on, pdu, now);
    case Opcode::Reject:
      return handle_reject(on, pdu);
    default:
      return drop(on, "the target sends what a target does not send");
  }
}

// Without a word of the target it is asked for one; soon, if it owes something that may be lost.
Instant InitiatorSession::deadline_of(const Connection& on) const {
  if (on.phase != Phase::Up) {
    const bool comes = on.phase == Phase::Down && state_ == SessionState::Live && !leaving_ &&
                       logout_ == Logout::None;
    const bool is_to_log_out = comes && on.recovery && pick() != nullptr;
    const Instant first = is_to_log_out ? on.recovery->due : Instant::never();
    const Instant last = comes && on.recovery ? on.recovery->until : Instant::never();
    return std::min({on.login_deadline, comes ? on.retry_at : Instant::never(), first, last});
  }
  if (on.dropped) {
    return Instant::never();
  }
  const bool owes = on.tasks != 0 || text_.connection == &on ||
                    std::ranges::any_of(managements_, [&](const auto& entry) {
                      return entry.second.connection == &on;
                    });
  const Duration silence = level() > 0 && owes
                               ? std::min(options_.ping_interval, options_.recovery_interval)
                               : options_.ping_interval;
  return on.ping_deadline.value_or(on.last_heard + silence);
}

void InitiatorSession::check_connection(Connection& on, Instant now) {
  if (!on.is_up() || now < deadline_of(on)) {
    return;
  }
  if (on.ping_deadline) {
    drop(on, "the target does not answer a ping");
  } else {
    send_ping(on, now);
  }
}

}  // namespace weft::iscsi
