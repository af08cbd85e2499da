// Hello and its reply: the first messages of the full feature phase, where the initiator wants them
// (RFC 7145 §5.1). The iSCSI layer hears of its login's end when they have been exchanged, so that
// nothing is sent before.

#include <algorithm>

#include "core/device.h"
#include "ulp/iser/connection.h"

namespace weft::iser {

/// RDMA READs of the target's that this end answers at once, as far as REQ can say it.
std::uint16_t Connection::ird() const {
  return static_cast<std::uint16_t>(
      std::min<std::uint32_t>(pd_->device().attributes().max_qp_rd_atomic, 0xFF));
}

Result<void> Connection::send_hello() {
  const auto hello = wire::pack(wire::iser::Hello{.ird = ird()});
  SendRequests requests;
  requests.push_back(channel_->make_send({hello.begin(), hello.end()}));
  requests.back()->must_signal = true;
  awaits_hello_reply_ = true;
  return channel_->sends().post(std::move(requests));
}

Result<void> Connection::check_hello_reply(const wire::iser::HelloReply& reply) const {
  if (!awaits_hello_reply_) {
    return fail(ErrorCode::Io, "a reply to a Hello that was not sent");
  }
  if (reply.rejected || reply.current_version != wire::iser::kVersion) {  // RFC 7145 §9.4
    return fail(ErrorCode::NotSupported,
                "the target speaks versions of iSER up to {}, and this end {} alone",
                reply.max_version, wire::iser::kVersion);
  }
  if (reply.ord > ird()) {
    return fail(ErrorCode::Io, "the target is to have {} RDMA READs under way; it says {}", ird(),
                reply.ord);
  }
  return {};
}

void Connection::take_hello_reply(const wire::iser::HelloReply& reply) {
  if (const auto checked = check_hello_reply(reply); !checked) {
    apply(ConnectionEvent::Terminate, checked.error().reason);
    return;
  }
  awaits_hello_reply_ = false;
  deliver();
}

}  // namespace weft::iser
