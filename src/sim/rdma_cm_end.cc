#include "sim/rdma_cm_end.h"

#include <fmt/format.h>

#include <array>

namespace weft::sim {
namespace {

constexpr Duration kProbeInterval = Duration::seconds(10);
constexpr QKey kUdpQKey{0x0123'4567};  // Q_Key of all services in port space UDP (rdma_cm.h)

}  // namespace

using cm::RdmaCmEventType;

void RdmaCmEnd::must(const Result<void>& result, std::string_view call) {
  if (!result) {
    in_.verdict.fail(fmt::format("connection {}: {}: {}", token_, call, result.error().reason));
  }
}

cm::ConnectionParameters RdmaCmEnd::parameters() const {
  cm::ConnectionParameters parameters{.qpn = qpn_, .retry_count = 7};
  parameters.private_data.resize(CmLedger::kTokenBytes);
  CmLedger::put(token_, parameters.private_data);
  return parameters;
}

void RdmaCmEnd::ask(const cm::SocketAddress& address, Instant now) {
  const cm::QpType type = is_lookup() ? cm::QpType::Ud : cm::QpType::Rc;
  id_ = in_.manager.create(in_.space, type, in_.sink, token_).value();
  in_.ledger.asked(token_, side_, in_.life, qpn_);
  must(in_.manager.resolve_address(id_, {.destination = address, .timeout = Duration::seconds(2)},
                                   now),
       "resolve_address");
}

void RdmaCmEnd::take(const cm::RdmaCmEvent& request, Instant now) {
  id_ = request.id;
  remote_ = request.parameters.qpn;
  in_.ledger.announced(token_, side_, in_.life, remote_, now);
  if (is_lookup()) {
    in_.exchanges.lookup_request_received(token_);
  }
  must(in_.manager.set_context(id_, token_), "set_context");
  plan(Step::Accept, now);
}

void RdmaCmEnd::plan(Step step, Instant now) {
  next_ = step;
  acts_at_ = now + behavior_.answer_delay;
}

void RdmaCmEnd::handle(const cm::RdmaCmEvent& event, Instant now) {
  switch (event.type) {
    case RdmaCmEventType::AddressResolved:
      return plan(Step::ResolveRoute, now);
    case RdmaCmEventType::RouteResolved:
      return plan(Step::Connect, now);
    case RdmaCmEventType::ConnectResponse:
      remote_ = event.parameters.qpn;
      return plan(Step::Confirm, now);
    case RdmaCmEventType::Established:
      return is_lookup() ? take_answer(event, now) : become_up(now);
    case RdmaCmEventType::Disconnected:
      if (std::exchange(end_was_reported_, true)) {
        return in_.verdict.fail(fmt::format("connection {}: its end was reported twice", token_));
      }
      // Answers the peer's DREQ; fails if it was answered already.
      static_cast<void>(in_.manager.disconnect(id_, now));
      in_.ledger.ended(token_, side_, CmTermination::Closed, now);
      next_ = Step::None;
      acts_at_ = probes_at_ = Instant::never();
      return behavior_.waits_for_time_wait ? void() : leave(CmTermination::Closed, now);
    case RdmaCmEventType::TimewaitExit:
      return leave(CmTermination::Closed, now);
    case RdmaCmEventType::Rejected:
      return leave(CmTermination::Refused, now);
    case RdmaCmEventType::Unreachable:
      if (is_lookup() && event.failure != cm::RdmaCmFailure::TimedOut) {
        return take_answer(event, now);
      }
      [[fallthrough]];
    case RdmaCmEventType::ConnectError:
      in_.ledger.timed_out(token_, side_, asked_at_, side_ == CmSide::Client ? "REQ" : "REP");
      return leave(CmTermination::TimedOut, now);
    case RdmaCmEventType::AddressError:
    case RdmaCmEventType::RouteError:
      return leave(CmTermination::Abandoned, now);  // no answer from ARP or SA
    default:
      in_.verdict.fail(
          fmt::format("connection {}: told of {}", token_, static_cast<unsigned>(event.type)));
  }
}

void RdmaCmEnd::take_answer(const cm::RdmaCmEvent& event, Instant now) {
  const bool is_success = event.type == RdmaCmEventType::Established;
  in_.exchanges.lookup_answer_received(
      token_, {.status = static_cast<wire::SidrStatus>(is_success ? 0 : event.status),
               .qpn = event.parameters.qpn,
               .qkey = event.parameters.qkey});
  leave(is_success ? CmTermination::Closed : CmTermination::Refused, now);
}

void RdmaCmEnd::accept(Instant now) {
  asked_at_ = now;
  in_.ledger.replied(token_, side_, in_.life, qpn_);
  if (is_lookup()) {
    has_answered_ = true;
    in_.exchanges.lookup_answered(
        token_, {.status = wire::SidrStatus::Success, .qpn = qpn_, .qkey = kUdpQKey});
  }
  const cm::ConnectionParameters reply = parameters();
  if (!in_.manager.accept(id_, &reply, now)) {  // fails if the peer is gone
    return leave(CmTermination::Abandoned, now);
  }
  if (is_lookup()) {
    leave(CmTermination::Closed, now);
  }
}

void RdmaCmEnd::become_up(Instant now) {
  in_.ledger.up(token_, side_, remote_, now);
  probes_at_ = now + kProbeInterval;
  if (behavior_.closes) {
    plan(Step::Disconnect, now);
  }
}

void RdmaCmEnd::act(Instant now) {
  acts_at_ = Instant::never();
  switch (std::exchange(next_, Step::None)) {
    case Step::ResolveRoute:
      return must(in_.manager.resolve_route(id_, Duration::seconds(2), now), "resolve_route");
    case Step::Connect:
      asked_at_ = now;
      return must(in_.manager.connect(id_, parameters(), now), "connect");
    case Step::Accept:
      if (behavior_.refuses) {
        static_cast<void>(in_.manager.reject(id_, 0, {}, now));
        return leave(CmTermination::Abandoned, now);
      }
      return accept(now);
    case Step::Confirm:
      if (!in_.manager.accept(id_, nullptr, now)) {
        return leave(CmTermination::Abandoned, now);
      }
      return become_up(now);
    case Step::Disconnect:
      must(in_.manager.disconnect(id_, now), "disconnect");
      probes_at_ = Instant::never();
      return in_.ledger.ended(token_, side_, CmTermination::Closed, now);
    case Step::None:
      return;
  }
}

void RdmaCmEnd::step(Instant now) {
  if (!is_over_ && behavior_.gives_up_at <= now) {
    return leave(CmTermination::Abandoned, now);
  }
  if (!is_over_ && probes_at_ <= now) {
    probes_at_ = now + kProbeInterval;
    if (in_.ledger.only_its_qp_notices(token_, side_)) {
      return leave(CmTermination::Abandoned, now);
    }
  }
  if (!is_over_ && acts_at_ <= now) {
    act(now);
  }
}

void RdmaCmEnd::leave(CmTermination termination, Instant now) {
  in_.ledger.ended(token_, side_, termination, now);
  if (is_lookup() && side_ == CmSide::Server && !has_answered_) {
    in_.exchanges.lookup_abandoned(token_);
  }
  must(in_.manager.destroy(id_, now), "destroy");
  acts_at_ = probes_at_ = behavior_.gives_up_at = Instant::never();
  is_over_ = true;
}

void RdmaCmEnd::die(Instant now) {
  if (!is_over_) {
    leave(CmTermination::ProcessDied, now);
  }
}

}  // namespace weft::sim
