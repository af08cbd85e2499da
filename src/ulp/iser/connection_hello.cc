// Hello and its reply: the first messages of the full feature phase, where login agreed on them or
// the initiator wants them as RFC 5046 does (RFC 7145 §5.1.3). Nothing is sent before the reply.

#include <algorithm>

#include "core/device.h"
#include "ulp/iser/connection.h"

namespace weft::iser {

/// RDMA READs of the target's that this end answers at once, as far as REQ can say it.
std::uint16_t Connection::ird() const {
  return static_cast<std::uint16_t>(
      std::min<std::uint32_t>(pd_->device().attributes().max_qp_rd_atomic, 0xFF));
}

bool Connection::agree(const TransferParameters& agreed) {
  agreed_ = agreed;
  if (!agreed.says_hello) {
    return true;
  }
  if (const auto sent = send_hello(); !sent) {
    apply(ConnectionEvent::Terminate, sent.error().reason);
  }
  return false;
}

Result<void> Connection::send_hello() {
  if (state_ != ConnectionState::Up) {
    return fail(ErrorCode::NoSuchDevice, "the connection is {}", name_of(state_));
  }
  const auto hello = wire::pack(wire::iser::Hello{.ird = ird()});
  SendRequests requests;
  requests.push_back(channel_->make_send(ByteSpan{hello}));
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
                "the target, whose iSER has versions up to {}, does not take the Hello of this "
                "end, which has {} alone",
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
  if (client_ != nullptr) {
    client_->handle_agreed(environment_.now());
  }
  if (room_notice) {
    room_notice();
  }
}

}  // namespace weft::iser
