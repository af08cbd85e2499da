#include "sim/cm_lookup_end.h"

#include <algorithm>
#include <array>
#include <variant>

#include "sim/cm_exchanges.h"

namespace weft::sim {
namespace {

using cm::CmEventType;
using wire::SidrStatus;

constexpr Duration kWaitLimit = Duration::milliseconds(120);  // timeout of one SIDR_REQ
/// Answers of users, in rotation.
constexpr std::array kStatuses = {SidrStatus::Success, SidrStatus::Success, SidrStatus::NoQp,
                                  SidrStatus::Success, SidrStatus::Rejected};

}  // namespace

void CmLookupEnd::ask(const cm::Path& path, std::uint64_t service_id, Instant now) {
  id_ = in_.manager.create(*this).value();
  in_.ledger.asked(token_, side_, in_.life, Qpn{});
  asked_at_ = now;
  const auto sent = in_.manager.send_sidr_req(
      id_,
      {.path = path,
       .service_id = service_id,
       .timeout = kWaitLimit,
       .private_data = in_.ledger.first_message(token_, side_, cm::kSidrReqPrivateData)},
      now);
  if (!sent) {
    in_.verdict.fail("send_sidr_req: " + sent.error().reason);
  }
}

cm::Handled CmLookupEnd::take(cm::CmId id, const cm::CmEvent& request, Instant now) {
  id_ = id;
  static_cast<void>(in_.manager.set_observer(id, *this, 0));
  return handle(id, request, now);
}

cm::Handled CmLookupEnd::handle(cm::CmId /*id*/, const cm::CmEvent& event, Instant now) {
  switch (event.type) {
    case CmEventType::SidrReqReceived:
      in_.ledger.replied(token_, side_, in_.life, Qpn{});
      in_.ledger.received_first(token_, side_, event.private_data);
      in_.exchanges.lookup_request_received(token_);
      answers_at_ = now + behavior_.answer_delay;
      break;
    case CmEventType::SidrRepReceived: {
      const auto& answer = std::get<cm::SidrRepReceived>(event.details);
      in_.exchanges.lookup_answer_received(token_, answer);
      if (answer.status == SidrStatus::Success) {
        in_.ledger.received_first(token_, side_, event.private_data);
      }
      leave(CmTermination::Closed, now);
      break;
    }
    case CmEventType::SidrReqTimeout:
      in_.ledger.timed_out(token_, side_, asked_at_, "SIDR_REQ");
      leave(CmTermination::TimedOut, now);
      break;
    default:
      in_.verdict.fail("a lookup got an event of a connection");
      break;
  }
  return cm::Handled::Keep;
}

void CmLookupEnd::answer(Instant now) {
  const SidrStatus status = kStatuses.at(token_ % kStatuses.size());
  const bool is_success = status == SidrStatus::Success;
  const cm::SidrRepReceived answer{.status = status,
                                   .qpn = Qpn{is_success ? 0x10'0000 + token_ : 0},
                                   .qkey = QKey{is_success ? token_ * 3 : 0}};
  in_.exchanges.lookup_answered(token_, answer);
  const auto sent = in_.manager.send_sidr_rep(
      id_,
      {.status = answer.status,
       .qpn = answer.qpn,
       .qkey = answer.qkey,
       .private_data = in_.ledger.first_message(token_, side_, cm::kSidrRepPrivateData)},
      now);
  if (!sent) {
    in_.verdict.fail("send_sidr_rep: " + sent.error().reason);
  }
  leave(CmTermination::Closed, now);
}

void CmLookupEnd::leave(CmTermination termination, Instant now) {
  in_.ledger.ended(token_, side_, termination, now);
  static_cast<void>(in_.manager.destroy(id_, now));
  answers_at_ = Instant::never();
  is_over_ = true;
}

void CmLookupEnd::die(bool with_host, Instant now) {
  if (is_over_) {
    return;
  }
  if (side_ == CmSide::Server) {
    in_.exchanges.lookup_abandoned(token_);
  }
  if (with_host) {
    in_.ledger.ended(token_, side_, CmTermination::HostDied, now);
    is_over_ = true;
    return;
  }
  leave(CmTermination::ProcessDied, now);
}

Instant CmLookupEnd::deadline() const {
  return is_over_ ? Instant::never() : std::min(answers_at_, behavior_.gives_up_at);
}

void CmLookupEnd::step(Instant now) {
  if (is_over_) {
    return;
  }
  if (behavior_.gives_up_at <= now) {
    if (side_ == CmSide::Server) {
      in_.exchanges.lookup_abandoned(token_);
    }
    return leave(CmTermination::Abandoned, now);
  }
  if (answers_at_ <= now) {
    answer(now);
  }
}

}  // namespace weft::sim
