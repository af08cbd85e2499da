// The life of a session: what its states do, timers, and the ends of commands.

#include "iscsi/initiator_session.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"
#include "iscsi/planted_bug.h"

namespace weft::iscsi {

using wire::iscsi::kNoTag;
using Phase = InitiatorConnection::Phase;

InitiatorSession::InitiatorSession(const InitiatorOptions& options,
                                   InitiatorEnvironment& environment)
    : options_(options), environment_(environment) {
  const std::uint32_t wanted = std::max(options.preferences.values.max_connections, 1U);
  for (std::uint32_t cid = 0; cid < wanted; ++cid) {
    connections_.push_back(std::make_unique<Connection>(*this, static_cast<std::uint16_t>(cid)));
  }
}

std::size_t InitiatorSession::connections() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(connections_, [](const auto& one) { return one->is_up(); }));
}

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
      reconnect_deadline_ = Instant::never();
      open(*connections_.front(), now);
      break;
    case SessionAction::Resume:
      reason_.clear();
      reconnect_deadline_ = fast_fail_deadline_ = dev_loss_deadline_ = Instant::never();
      retain_deadline_ = Instant::never();
      open_others(now);
      send_waiting(now);
      break;
    case SessionAction::Report:
      end_waiting(InitiatorOutcome::Kind::NotSent);
      break;
    case SessionAction::Block:  // RFC 7143 §7.1.4.4: a session takes its commands along
      arm_timers(now);
      forget_session(now);
      break;
    case SessionAction::Suspend:
      arm_timers(now);
      retain_deadline_ = now + time_to_wait() + Duration::seconds(agreed_.default_time2retain);
      break;
    case SessionAction::ArmReconnect:
      reconnect_deadline_ = now + std::max(options_.reconnect_delay, wait_before_login_);
      break;
    case SessionAction::FailWaiting:
      fast_fail_deadline_ = Instant::never();
      forget_session(now);
      end_waiting(InitiatorOutcome::Kind::NotSent);
      break;
    case SessionAction::LogOut:
      logout_ = Logout::Wanted;
      logout_deadline_ = now + options_.logout_timeout;
      break;
    case SessionAction::GiveUp:
    case SessionAction::End:
      end_all(now);
      break;
  }
}

void InitiatorSession::arm_timers(Instant now) {
  const Duration least = tsih_ != 0 && level() == 2 ? time_to_wait() : wait_before_login_;
  reconnect_deadline_ = now + std::max(options_.reconnect_delay, least);
  fast_fail_deadline_ = now + options_.fast_fail;
  dev_loss_deadline_ = now + options_.dev_loss;
}

Duration InitiatorSession::time_to_wait() const {
  return std::max(Duration::seconds(agreed_.default_time2wait), wait_before_login_);
}

void InitiatorSession::end_all(Instant now) {
  reconnect_deadline_ = fast_fail_deadline_ = dev_loss_deadline_ = Instant::never();
  for (const auto& one : connections_) {
    close(*one, "the session has ended");
  }
  forget_session(now);
  end_waiting(InitiatorOutcome::Kind::NotSent);
}

void InitiatorSession::start(Instant now) {
  WEFT_ASSERT(is_all_down(), "the last connection is gone");
  apply(SessionEvent::Start, {}, now);
}

void InitiatorSession::stop(Instant now) {
  apply(SessionEvent::Stop, "stopped", now);
  check_session(now);
  check_left(now);
  tell_ended(now);
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
  end_text(nullptr, now);
}

// The target has it no more, or will not: the next login begins another one.
void InitiatorSession::forget_session(Instant now) {
  tsih_ = 0;
  retain_deadline_ = Instant::never();
  for (const auto& one : connections_) {
    one->recovery.reset();
    one->retry_at = Instant::never();
    one->tasks = 0;
    if (one->login && one->login->joins()) {
      drop(*one, "the session is over");
    }
  }
  end_under_way(now);
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

void InitiatorSession::handle_timeout(Instant now) {
  if (now >= reconnect_deadline_) {
    reconnect_deadline_ = Instant::never();
    apply(SessionEvent::ReconnectDue, {}, now);
  }
  if (now >= retain_deadline_) {
    forget_session(now);
  }
  if (now >= fast_fail_deadline_) {
    fast_fail_deadline_ = Instant::never();
    apply(SessionEvent::FastFailDue, {}, now);
  }
  if (now >= dev_loss_deadline_) {
    dev_loss_deadline_ = Instant::never();
    apply(SessionEvent::DevLossDue, "the target did not come back", now);
  }
  for (const auto& one : connections_) {
    if (now >= one->login_deadline) {
      one->login_deadline = Instant::never();
      if (one->phase == Phase::Connecting) {
        environment_.cancel_connect(one->cid);
        handle_connect_failed(one->cid, "the target does not answer", now);
      } else {
        drop(*one, "the login takes too long");
      }
    }
    check_connection(*one, now);
  }
  check_session(now);
  check_commands(now);
  check_recovery(now);
  check_left(now);
  tell_ended(now);
}

void InitiatorSession::check_session(Instant now) {
  if (logout_ == Logout::None || leaving_) {
    return;
  }
  if (logout_ == Logout::Wanted && (tasks_.empty() || now >= logout_deadline_)) {
    if (Connection* const on = pick()) {
      send_logout(*on, now);
    }
  } else if (logout_ == Logout::Sent && now >= logout_deadline_) {
    leave(SessionEvent::ConnectionLost, "the target does not answer a logout", now);
  }
}

void InitiatorSession::check_commands(Instant now) {
  if (leaving_ || pick() == nullptr) {
    return;
  }
  for (const auto& [tag, management] : managements_) {
    if (now >= management.deadline && management.connection != nullptr) {
      drop(*management.connection, "the target does not answer a task management function");
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
      std::min({reconnect_deadline_, fast_fail_deadline_, dev_loss_deadline_, retain_deadline_});
  for (const auto& one : connections_) {
    soonest = std::min(soonest, deadline_of(*one));
  }
  if (leaving_ || pick() == nullptr) {
    return soonest;
  }
  if (logout_ != Logout::None) {
    soonest = std::min(soonest, logout_deadline_);
  }
  for (const auto& [tag, management] : managements_) {
    soonest = std::min(soonest, management.deadline);
  }
  for (const auto& [tag, task] : tasks_) {
    soonest = task.aborting ? soonest : std::min(soonest, task.deadline);
  }
  return soonest;
}

}  // namespace weft::iscsi
