#include "sim/cmrc_end.h"

#include <algorithm>

namespace weft::sim {
namespace {

constexpr Duration kProbeInterval = Duration::seconds(1);

}  // namespace

bool CmrcEnd::ask(const cm::Path& path, std::uint64_t service_id, Instant now) {
  if (!make_qp()) {
    is_over_ = true;
    return false;
  }
  in_.ledger.asked(token_, side_, in_.life, qp_->number());
  const auto opened = connection_.open(path, service_id);
  const auto sent =
      opened ? connection_.write(in_.ledger.first_message(token_, side_, cm::kReqPrivateData), now)
             : opened;
  if (!sent) {
    in_.verdict.fail("cmrc, the first datagram: " + sent.error().reason);
  }
  asked_at_ = now;
  return true;
}

cm::Handled CmrcEnd::take(cm::CmId id, const cm::CmEvent& request, Instant now) {
  remote_ = std::get<cm::ReqReceived>(request.details).remote_qpn;
  in_.ledger.announced(token_, side_, in_.life, remote_, now);
  if (!make_qp()) {
    in_.ledger.ended(token_, side_, CmTermination::Abandoned, now);
    is_over_ = true;
    return cm::Handled::Destroy;
  }
  if (const auto taken = connection_.accept(id, request, now); !taken) {
    in_.verdict.fail("cmrc, accept: " + taken.error().reason);
  }
  answers_at_ = now + behavior_.answer_delay;
  return cm::Handled::Keep;
}

/// The first datagram is the private data of the peer's REQ or REP; that of a REJ is not checked.
void CmrcEnd::handle_datagram(ByteSpan datagram, Instant now) {
  if (is_over_) {
    return in_.verdict.fail("cmrc reported a datagram after its end");
  }
  if (datagram.size() == cm::kRejPrivateData && !has_first_) {
    return;
  }
  if (has_first_) {
    in_.ledger.received(token_, side_, datagram);
  } else {
    in_.ledger.received_first(token_, side_, datagram);
  }
  has_first_ = true;
  probes_at_ = now + kProbeInterval;
}

void CmrcEnd::handle_connected(Instant now) {
  in_.ledger.up(token_, side_, remote_, now);
  is_up_ = true;
  probes_at_ = now + kProbeInterval;
}

void CmrcEnd::handle_closed(const Error& why, Instant now) {
  if (is_over_) {
    return in_.verdict.fail("cmrc reported its end twice");
  }
  if (why.code == ErrorCode::TimedOut) {
    in_.ledger.timed_out(token_, side_, asked_at_, "first datagram");
  }
  const bool was_disconnected = is_up_ || why.code == ErrorCode::NoData;
  leave(was_disconnected                  ? CmTermination::Closed
        : why.code == ErrorCode::TimedOut ? CmTermination::TimedOut
                                          : CmTermination::Refused,
        now);
}

void CmrcEnd::leave(CmTermination termination, Instant now) {
  for (const auto& message : qp_ ? qp_->poll().messages : CmQp::Completions{}.messages) {
    in_.ledger.received(token_, side_, message);
  }
  in_.ledger.ended(token_, side_, termination, now);
  is_over_ = true;
  connection_.close(now);
}

void CmrcEnd::work(Instant now) {
  while (is_up_ && !is_over_ && qp_->has_room() &&
         in_.ledger.sent_by(token_, side_) < behavior_.messages) {
    if (!connection_.write(in_.ledger.next_message(token_, side_), now)) {
      return;  // already notified of the end
    }
  }
  const unsigned expected =
      in_.ledger.plan(token_).messages[static_cast<std::size_t>(other(side_))];
  if (is_up_ && !is_over_ && behavior_.closes && qp_->is_idle() &&
      in_.ledger.received_by(token_, side_) >= expected) {
    leave(CmTermination::Closed, now);
  }
}

Instant CmrcEnd::deadline() const {
  if (is_over_) {
    return Instant::never();
  }
  return std::min({answers_at_, behavior_.gives_up_at, is_up_ ? probes_at_ : Instant::never()});
}

void CmrcEnd::step(Instant now) {
  if (is_over_) {
    qp_.reset();
    return;
  }
  const CmQp::Completions polled = qp_->poll();
  for (const auto& message : polled.messages) {
    connection_.handle_receive(message, now);
  }
  if (polled.has_failed && !is_over_) {
    if (is_up_) {
      in_.ledger.qp_failed(token_, side_);
    }
    return leave(CmTermination::Abandoned, now);
  }
  if (!is_over_ && behavior_.gives_up_at <= now) {
    return leave(CmTermination::Abandoned, now);
  }
  if (!is_over_ && answers_at_ <= now) {
    answers_at_ = Instant::never();
    if (behavior_.refuses) {
      static_cast<void>(connection_.reject({}, now));
      return leave(CmTermination::Abandoned, now);
    }
    in_.ledger.replied(token_, side_, in_.life, qp_->number());
    asked_at_ = now;
    if (const auto sent =
            connection_.write(in_.ledger.first_message(token_, side_, cm::kRepPrivateData), now);
        !sent) {
      in_.verdict.fail("cmrc, the reply: " + sent.error().reason);
    }
  }
  if (is_up_ && !is_over_ && probes_at_ <= now && qp_->has_room()) {
    probes_at_ = now + kProbeInterval;
    static_cast<void>(qp_->probe());  // fails in error, as completions will show
  }
  work(now);
}

void CmrcEnd::die(bool with_host, Instant now) {
  if (!is_over_ && with_host) {
    in_.ledger.ended(token_, side_, CmTermination::HostDied, now);
    is_over_ = true;
  } else if (!is_over_) {
    leave(CmTermination::ProcessDied, now);
  }
  qp_.reset();
}

}  // namespace weft::sim
