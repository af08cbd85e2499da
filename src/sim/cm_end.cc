#include "sim/cm_end.h"

#include <algorithm>
#include <array>
#include <variant>

namespace weft::sim {
namespace {

using cm::CmEventType;

constexpr std::uint8_t kMaxAnswerDelay = 14;  // exponent: 67 ms
constexpr Duration kProbeInterval = Duration::seconds(1);
constexpr Duration kLooksAgainIn = Duration::milliseconds(1);
constexpr Duration kBetweenPaths = Duration::milliseconds(5);
constexpr Duration kWaitsForArmed = Duration::seconds(2);

}  // namespace

bool CmEnd::make_qp() {
  const std::uint64_t psn = (token_ * 2ULL + static_cast<std::uint64_t>(side_) + 1) * 0x9E37'79B9;
  auto made = CmQp::create(in_.hca, in_.pd, Psn{static_cast<std::uint32_t>(psn) & 0xFF'FFFF});
  if (made) {
    qp_ = std::move(*made);
  }
  return made.has_value();
}

bool CmDirectEnd::ask(const Target& target, Instant now) {
  if (!make_qp()) {
    phase_ = Phase::Over;
    return false;
  }
  id_ = in_.manager.create(*this).value();
  in_.ledger.asked(token_, side_, in_.life, qp_->number());
  const auto sent = in_.manager.send_req(
      id_,
      {.primary = target.path,
       .service_id = target.service_id,
       .qpn = qp_->number(),
       .starting_psn = qp_->starting_psn(),
       .responder_resources = 4,
       .initiator_depth = 4,
       .remote_cm_response_timeout = 12,
       .local_cm_response_timeout = 12,
       .peer_to_peer = target.peer_to_peer,
       .private_data = in_.ledger.first_message(token_, side_, cm::kReqPrivateData)},
      now);
  if (!sent) {
    in_.verdict.fail("send_req: " + sent.error().reason);
  }
  phase_ = Phase::Asking;
  asked_at_ = now;
  return true;
}

cm::Handled CmDirectEnd::take(cm::CmId id, const cm::CmEvent& request, Instant now) {
  id_ = id;
  static_cast<void>(in_.manager.set_observer(id, *this, 0));
  return handle(id, request, now);
}

cm::Handled CmDirectEnd::handle(cm::CmId /*id*/, const cm::CmEvent& event, Instant now) {
  switch (event.type) {
    case CmEventType::ReqReceived:
      remote_ = std::get<cm::ReqReceived>(event.details).remote_qpn;
      answers_req_ = true;
      in_.ledger.announced(token_, side_, in_.life, remote_, now);
      in_.ledger.received_first(token_, side_, event.private_data);
      start_delay(now);
      break;
    case CmEventType::RepReceived:
      remote_ = std::get<cm::RepReceived>(event.details).remote_qpn;
      answers_req_ = false;
      in_.ledger.received_first(token_, side_, event.private_data);
      start_delay(now);
      break;
    case CmEventType::RtuReceived:
    case CmEventType::UserEstablished:
      become_up(now);
      break;
    case CmEventType::DreqReceived:
      look(now);
      if (phase_ != Phase::Over) {
        static_cast<void>(in_.manager.send_drep(id_, {}, now));
        wait(CmTermination::Closed, now);
      }
      break;
    case CmEventType::DrepReceived:
      wait(CmTermination::Closed, now);
      break;
    case CmEventType::RejReceived:
      on_reject(std::get<cm::RejReceived>(event.details), now);
      break;
    case CmEventType::ReqTimeout:
    case CmEventType::RepTimeout:
    case CmEventType::DreqTimeout:
      on_timeout(event, now);
      break;
    case CmEventType::LapReceived:
      on_lap(event, now);
      break;
    case CmEventType::AprReceived:
      on_apr(event, now);
      break;
    case CmEventType::LapTimeout:
      in_.ledger.load_timed_out(token_, side_, path_requested_at_);
      path_ = 0;
      break;
    case CmEventType::TimewaitExit:
      in_.ledger.time_wait_over(token_, side_, now);
      leave(CmTermination::Closed, now);
      break;
    default:
      break;
  }
  return cm::Handled::Keep;
}

void CmDirectEnd::on_reject(const cm::RejReceived& reject, Instant now) {
  if (reject.reason == wire::RejectReason::StaleConnection && phase_ == Phase::Asking) {
    in_.ledger.refused_as_stale(token_);
  }
  const auto status = in_.manager.status(id_);
  const bool waits = status && status->state == cm::State::Timewait;
  waits ? wait(CmTermination::Refused, now) : leave(CmTermination::Refused, now);
}

void CmDirectEnd::on_timeout(const cm::CmEvent& event, Instant now) {
  in_.ledger.timed_out(token_, side_, asked_at_,
                       event.type == CmEventType::ReqTimeout   ? "REQ"
                       : event.type == CmEventType::RepTimeout ? "REP"
                                                               : "DREQ");
  if (event.type == CmEventType::DreqTimeout) {
    wait(CmTermination::Closed, now);
  } else {
    leave(CmTermination::TimedOut, now);
  }
}

/// Delays the answer to the last event.
void CmDirectEnd::start_delay(Instant now) {
  phase_ = Phase::Delaying;
  answers_at_ = now + behavior_.answer_delay;
  if (behavior_.sends_mra) {
    static_cast<void>(in_.manager.send_mra(id_, kMaxAnswerDelay, {}, now));
  }
}

void CmDirectEnd::answer(Instant now) {
  answers_at_ = Instant::never();
  if (behavior_.refuses) {
    static_cast<void>(in_.manager.send_rej(id_, {}, now));
    return leave(CmTermination::Abandoned, now);
  }
  answers_req_ ? reply(now) : confirm(now);
}

bool CmDirectEnd::take_transitions() {
  for (const verbs::QpState state :
       {verbs::QpState::Init, verbs::QpState::Rtr, verbs::QpState::Rts}) {
    const auto attributes = in_.manager.init_qp_attributes(id_, state);
    const auto modified =
        attributes ? qp_->modify(*attributes) : Result<void>{std::unexpected(attributes.error())};
    if (!modified) {
      in_.verdict.fail("a transition of a QP was refused: " + modified.error().reason);
      return false;
    }
  }
  return true;
}

void CmDirectEnd::reply(Instant now) {
  if (!qp_ && !make_qp()) {
    return leave(CmTermination::Abandoned, now);
  }
  in_.ledger.replied(token_, side_, in_.life, qp_->number());
  const auto sent = in_.manager.send_rep(
      id_,
      {.qpn = qp_->number(),
       .starting_psn = qp_->starting_psn(),
       .responder_resources = 4,
       .initiator_depth = 4,
       .private_data = in_.ledger.first_message(token_, side_, cm::kRepPrivateData)},
      now);
  if (!sent) {
    return in_.verdict.fail("send_rep: " + sent.error().reason);
  }
  phase_ = Phase::Answering;
  asked_at_ = now;
  static_cast<void>(take_transitions());
}

void CmDirectEnd::confirm(Instant now) {
  if (!take_transitions()) {
    return;
  }
  if (const auto sent = in_.manager.send_rtu(id_, {}, now); !sent) {
    return in_.verdict.fail("send_rtu: " + sent.error().reason);
  }
  become_up(now);
}

void CmDirectEnd::become_up(Instant now) {
  in_.ledger.up(token_, side_, remote_, now);
  phase_ = Phase::Up;
  probes_at_ = now + kProbeInterval;
  asks_for_path_at_ = behavior_.paths > 0 ? now + kBetweenPaths : Instant::never();
  work(now);
}

void CmDirectEnd::communication_established(Instant now) {
  if (phase_ == Phase::Answering) {
    static_cast<void>(in_.manager.establish(id_, now));  // fails if the RTU arrived meanwhile
  }
}

void CmDirectEnd::work(Instant now) {
  while (phase_ == Phase::Up && qp_->has_room() &&
         in_.ledger.sent_by(token_, side_) < behavior_.messages) {
    if (!qp_->send(in_.ledger.next_message(token_, side_))) {
      return;  // the QP is in error, as its completions will show
    }
  }
  const unsigned expected =
      in_.ledger.plan(token_).messages[static_cast<std::size_t>(other(side_))];
  if (phase_ == Phase::Up && behavior_.closes && qp_->is_idle() && !has_paths_to_load() &&
      in_.ledger.received_by(token_, side_) >= expected) {
    close(now);
  }
}

void CmDirectEnd::look(Instant now) {
  if (!qp_) {
    return;
  }
  const CmQp::Completions polled = qp_->poll();
  for (const auto& message : polled.messages) {
    in_.ledger.received(token_, side_, message);
  }
  if (polled.has_completed || !polled.messages.empty()) {
    probes_at_ = now + kProbeInterval;
  }
  if (polled.has_failed && phase_ == Phase::Up) {
    in_.ledger.qp_failed(token_, side_);
    leave(CmTermination::Abandoned, now);
  }
}

bool CmDirectEnd::has_paths_to_load() const {
  return path_ != 0 || asks_for_path_at_ != Instant::never() || migrates_by_ != Instant::never();
}

/// Requests a path between the ports' other LIDs; the service level is the path's number.
void CmDirectEnd::start_path_query(Instant now) {
  asks_for_path_at_ = Instant::never();
  const auto status = in_.manager.status(id_);
  if (!status || status->state != cm::State::Established) {
    return;  // the connection is ending, as an event will show
  }
  ++paths_requested_;
  path_ = in_.exchanges.path_requested(token_);
  path_requested_at_ = now;
  cm::Path path = status->primary;
  path.slid = Lid{path.slid.value() ^ 1};
  path.dlid = Lid{path.dlid.value() ^ 1};
  path.sl = ServiceLevel{path_};
  const std::array number{static_cast<std::byte>(path_)};
  if (const auto sent = in_.manager.send_lap(id_, path, number, now); !sent) {
    in_.verdict.fail("send_lap: " + sent.error().reason);
  }
}

void CmDirectEnd::on_lap(const cm::CmEvent& event, Instant now) {
  const auto number = std::to_integer<std::uint8_t>(event.private_data.at(0));
  in_.exchanges.path_request_received(token_, number,
                                      std::get<cm::LapReceived>(event.details).alternate);
  paths_peer_ = number;
  answers_path_at_ = now + behavior_.answer_delay;
  if (behavior_.sends_mra) {
    static_cast<void>(in_.manager.send_mra(id_, kMaxAnswerDelay, {}, now));
  }
}

/// Rejects every third path.
void CmDirectEnd::answer_path(Instant now) {
  answers_path_at_ = Instant::never();
  const bool accepts = (paths_peer_ + token_) % 3 != 0;
  in_.exchanges.path_answered(token_, paths_peer_, accepts);
  const std::array number{static_cast<std::byte>(paths_peer_)};
  const auto sent = in_.manager.send_apr(
      id_,
      {.status = accepts ? wire::AprStatus::Success : wire::AprStatus::Rejected,
       .private_data = number},
      now);
  if (!sent) {
    return in_.verdict.fail("send_apr: " + sent.error().reason);
  }
  in_.exchanges.path_loaded(token_, CmSide::Server, in_.manager.status(id_)->alternate);
  if (accepts) {
    load_path(now);
  }
}

void CmDirectEnd::on_apr(const cm::CmEvent& event, Instant now) {
  const bool is_accepted =
      std::get<cm::AprReceived>(event.details).status == wire::AprStatus::Success;
  const auto number = std::to_integer<std::uint8_t>(event.private_data.at(0));
  in_.exchanges.path_answer_received(token_, path_, number, is_accepted);
  path_ = 0;
  in_.exchanges.path_loaded(token_, CmSide::Client, in_.manager.status(id_)->alternate);
  if (is_accepted) {
    load_path(now);
  }
  const bool is_last = paths_requested_ >= behavior_.paths;
  asks_for_path_at_ = is_last ? Instant::never() : now + kBetweenPaths;
  if (is_last && is_accepted && behavior_.migrates) {
    migrates_by_ = now + kWaitsForArmed;
    probes_at_ = now;  // the QPs become ARMED only when packets are exchanged
  }
}

void CmDirectEnd::load_path(Instant now) {
  const auto attributes = in_.manager.init_qp_attributes(id_, verbs::QpState::Rts);
  if (!attributes || !attributes->mask.has(verbs::QpAttribute::AlternatePath)) {
    return in_.verdict.fail("a path that was agreed upon is not in the QP's attributes");
  }
  if (qp_->state() != hca::QpState::Rts) {
    return look(now);  // the QP failed, as its completions will show
  }
  if (const auto modified = qp_->modify(*attributes); !modified) {
    in_.verdict.fail("an alternate path was refused: " + modified.error().reason);
  }
}

/// Migrates and sends a probe on the new path.
void CmDirectEnd::migrate_if_armed(Instant now) {
  if (migrates_by_ == Instant::never()) {
    return;
  }
  if (qp_->migration() == hca::MigrationState::Armed) {
    migrates_by_ = Instant::never();
    if (const auto migrated = qp_->migrate(); !migrated) {
      return in_.verdict.fail("migrate: " + migrated.error().reason);
    }
    in_.exchanges.migrated();
    probes_at_ = now;
  } else if (migrates_by_ <= now) {
    migrates_by_ = Instant::never();
  }
}

/// Swaps the manager's paths as well.
void CmDirectEnd::path_migrated(Instant now) {
  // fails if the connection is ending
  static_cast<void>(in_.manager.notify(id_, verbs::AsyncEventType::PathMigrated, now));
}

void CmDirectEnd::close(Instant now) {
  if (behavior_.closes_abruptly) {
    return leave(CmTermination::Closed, now);
  }
  if (const auto sent = in_.manager.send_dreq(id_, {}, now); !sent) {
    return in_.verdict.fail("send_dreq: " + sent.error().reason);
  }
  asked_at_ = now;
  qp_->enter_error();
  in_.ledger.ended(token_, side_, CmTermination::Closed, now);
  phase_ = Phase::Closing;
}

void CmDirectEnd::wait(CmTermination termination, Instant now) {
  in_.ledger.ended(token_, side_, termination, now);
  in_.ledger.time_wait_began(token_, side_, now);
  phase_ = Phase::Waiting;
  answers_at_ = answers_path_at_ = Instant::never();
  if (qp_) {
    qp_->enter_error();
  }
  if (!behavior_.keeps_qp) {
    qp_.reset();
  }
}

/// Destroys identifier and QP; the manager completes what the protocol requires.
void CmDirectEnd::leave(CmTermination termination, Instant now) {
  in_.ledger.ended(token_, side_, termination, now);
  static_cast<void>(in_.manager.destroy(id_, now));
  answers_at_ = Instant::never();
  qp_.reset();
  phase_ = Phase::Over;
}

void CmDirectEnd::die(bool with_host, Instant now) {
  if (phase_ == Phase::Over) {
    return;
  }
  if (!with_host) {
    return leave(CmTermination::ProcessDied, now);
  }
  in_.ledger.ended(token_, side_, CmTermination::HostDied, now);
  qp_.reset();
  phase_ = Phase::Over;
}

Instant CmDirectEnd::deadline() const {
  if (phase_ >= Phase::Closing) {
    return Instant::never();
  }
  const Instant next = std::min(answers_at_, behavior_.gives_up_at);
  return phase_ != Phase::Up
             ? next
             : std::min({next, probes_at_, asks_for_path_at_, answers_path_at_, migrates_by_});
}

void CmDirectEnd::step(Instant now) {
  look(now);
  if (phase_ < Phase::Closing && behavior_.gives_up_at <= now) {
    return leave(CmTermination::Abandoned, now);
  }
  if (phase_ == Phase::Delaying && answers_at_ <= now) {
    answer(now);
  }
  if (phase_ == Phase::Up && asks_for_path_at_ <= now) {
    start_path_query(now);
  }
  if (phase_ == Phase::Up && answers_path_at_ <= now) {
    answer_path(now);
  }
  if (phase_ == Phase::Up) {
    migrate_if_armed(now);
  }
  if (phase_ == Phase::Up && probes_at_ <= now) {
    probes_at_ = now + (qp_->has_room() ? kProbeInterval : kLooksAgainIn);
    if (qp_->has_room()) {
      static_cast<void>(qp_->probe());  // fails in error, as completions will show
    }
  }
  if (phase_ == Phase::Up) {
    work(now);
  }
}

}  // namespace weft::sim
