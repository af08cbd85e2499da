#include "cm/cmrc.h"

#include <array>
#include <utility>
#include <variant>

namespace weft::cm {
namespace {

/// A rejection is an error of its own (R-MI-4): nobody offers the service, this connection is known
/// from before, its user does not want it, or the peer cannot have it.
[[nodiscard]] ErrorCode error_of(wire::RejectReason reason) {
  switch (reason) {
    case wire::RejectReason::InvalidServiceId:
      return ErrorCode::NoSuchDevice;
    case wire::RejectReason::StaleConnection:
      return ErrorCode::AlreadyConnected;
    case wire::RejectReason::ConsumerReject:
      return ErrorCode::Refused;
    default:
      return ErrorCode::PermissionDenied;
  }
}

}  // namespace

CmReliableConnection::~CmReliableConnection() { close(last_now_); }

Result<void> CmReliableConnection::open(const Path& path, std::uint64_t service_id) {
  if (phase_ != Phase::New) {
    return fail(ErrorCode::Busy, "the connection was opened before");
  }
  const auto id = manager_.create(*this);
  if (!id) {
    return std::unexpected(id.error());
  }
  id_ = *id;
  path_ = path;
  service_id_ = service_id;
  phase_ = Phase::Opened;
  return {};
}

Result<void> CmReliableConnection::accept(CmId id, const CmEvent& request, Instant now) {
  if (phase_ != Phase::New || request.type != CmEventType::ReqReceived) {
    return fail(ErrorCode::InvalidArgument,
                "only a new connection can accept a request, and only once");
  }
  if (auto taken = manager_.set_observer(id, *this, 0); !taken) {
    return taken;
  }
  last_now_ = now;
  id_ = id;
  phase_ = Phase::Accepted;
  user_.handle_datagram(request.private_data, now);
  return {};
}

Result<void> CmReliableConnection::reject(ByteSpan datagram, Instant now) {
  if (phase_ != Phase::Accepted) {
    return fail(ErrorCode::InvalidArgument, "only a request that waits can be rejected");
  }
  if (auto sent = manager_.send_rej(id_, {.private_data = datagram}, now); !sent) {
    return sent;
  }
  close(now);
  return {};
}

/// Moves the QP through its states up to `last` (R-CM-3).
Result<void> CmReliableConnection::make_ready(QpState last) {
  for (const QpState state : {QpState::Init, QpState::Rtr, QpState::Rts}) {
    if (state > last) {
      break;
    }
    const auto to = manager_.init_qp_attributes(id_, state);
    if (!to) {
      return std::unexpected(to.error());
    }
    if (auto modified = qp_.modify(*to); !modified) {
      return modified;
    }
  }
  return {};
}

Result<void> CmReliableConnection::write(ByteSpan datagram, Instant now) {
  last_now_ = now;
  if (phase_ == Phase::Opened) {
    auto sent = manager_.send_req(id_,
                                  {.primary = path_,
                                   .service_id = service_id_,
                                   .qpn = qp_.number(),
                                   .starting_psn = qp_.starting_psn(),
                                   .private_data = datagram},
                                  now);
    // stays New on failure, so that a shorter datagram can be tried (R-CMRC-6)
    phase_ = sent ? Phase::Asked : phase_;
    return sent;
  }
  if (phase_ == Phase::Accepted) {
    if (datagram.size() > kRepPrivateData) {
      return fail(ErrorCode::InvalidArgument, "{} bytes; a REP has room for {}", datagram.size(),
                  kRepPrivateData);
    }
    auto sent = manager_.send_rep(
        id_, {.qpn = qp_.number(), .starting_psn = qp_.starting_psn(), .private_data = datagram},
        now);
    if (!sent) {
      return sent;
    }
    phase_ = Phase::Replied;
    // Not earlier: the manager learns the peer's starting PSN from the REP.
    auto ready = make_ready(QpState::Rts);
    if (!ready) {
      fail_with(ready.error(), now);
    }
    return ready;
  }
  if (phase_ == Phase::Connected) {
    if (datagram.size() > window()) {
      return fail(ErrorCode::InvalidArgument, "{} bytes; the window is {}", datagram.size(),
                  window());
    }
    auto sent = qp_.send(datagram);
    if (!sent) {
      fail_with(sent.error(), now);
    }
    return sent;
  }
  const Error why{ErrorCode::Io, "written before the connection was made, or after its end"};
  if (phase_ == Phase::Asked || phase_ == Phase::Replied) {
    fail_with(why, now);
  }
  return std::unexpected(why);
}

std::size_t CmReliableConnection::window() const {
  return phase_ == Phase::Connected ? qp_.max_message_bytes() : 0;
}

void CmReliableConnection::close(Instant now) {
  if (id_ != kNoCmId) {
    (void)manager_.destroy(std::exchange(id_, kNoCmId), now);  // the user did not get another id
  }
  phase_ = Phase::Closed;
}

void CmReliableConnection::fail_with(Error why, Instant now) {
  if (phase_ == Phase::Closed) {
    return;
  }
  close(now);
  user_.handle_closed(why, now);
}

/// On the passive side, the first message also establishes the connection, because the RTU may be
/// late or lost.
void CmReliableConnection::handle_receive(ByteSpan datagram, Instant now) {
  last_now_ = now;
  if (phase_ == Phase::Replied) {
    // Fails if the RTU arrived meanwhile, which has the same effect.
    (void)manager_.establish(id_, now);
    phase_ = Phase::Connected;
    user_.handle_connected(now);
  }
  if (phase_ == Phase::Connected) {
    user_.handle_datagram(datagram, now);
  }
}

void CmReliableConnection::handle_qp_error(const Error& why, Instant now) { fail_with(why, now); }

/// The datagram is delivered before handle_connected (R-CMRC-3).
void CmReliableConnection::handle_reply(const CmEvent& event, Instant now) {
  if (auto ready = make_ready(QpState::Rts); !ready) {
    return fail_with(ready.error(), now);
  }
  if (auto sent = manager_.send_rtu(id_, {}, now); !sent) {
    return fail_with(sent.error(), now);
  }
  phase_ = Phase::Connected;
  user_.handle_datagram(event.private_data, now);
  if (phase_ == Phase::Connected) {
    user_.handle_connected(now);
  }
}

Handled CmReliableConnection::handle(CmId /*id*/, const CmEvent& event, Instant now) {
  last_now_ = now;
  switch (event.type) {
    case CmEventType::RepReceived:
      handle_reply(event, now);
      break;
    case CmEventType::RtuReceived:
      if (phase_ == Phase::Replied) {
        phase_ = Phase::Connected;
        user_.handle_connected(now);
      }
      break;
    case CmEventType::RejReceived: {
      const auto reason = std::get<RejReceived>(event.details).reason;
      // A later REJ contains no datagram of the peer's user, so only the end is reported.
      if (reason == wire::RejectReason::ConsumerReject && phase_ == Phase::Asked) {
        user_.handle_datagram(event.private_data, now);
      }
      fail_with({error_of(reason),
                 fmt::format("the other side rejected the connection: {}", name_of(reason))},
                now);
      break;
    }
    case CmEventType::ReqTimeout:
    case CmEventType::RepTimeout:
      fail_with({ErrorCode::TimedOut, "the other side did not answer"}, now);
      break;
    case CmEventType::DreqReceived:
      // if it fails, closing releases the connection as well
      (void)manager_.send_drep(id_, {}, now);
      fail_with({ErrorCode::NoData, "the other side closed the connection"}, now);
      break;
    case CmEventType::DreqTimeout:
    case CmEventType::DrepReceived:
      fail_with({ErrorCode::NoData, "the other side has forgotten the connection"}, now);
      break;
    default:
      break;
  }
  return Handled::Keep;
}

}  // namespace weft::cm
