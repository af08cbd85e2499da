#include "hca/rc_transport.h"

#include <algorithm>

#include "hca/rc_requester.h"
#include "hca/rc_responder.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

class RcTransport final : public Transport {
 public:
  RcTransport(QpCore& core, CarrierKind carrier, const DeviceLimits& limits)
      : requester_(core, carrier), responder_(core, limits) {}

  void handle_packet(const Packet& packet, Instant now) override {
    const wire::OpcodeInfo* info = wire::opcode_info(packet.header.opcode);
    const bool is_response =
        info != nullptr && (info->operation == wire::Operation::Acknowledge ||
                            info->operation == wire::Operation::AtomicAcknowledge ||
                            info->operation == wire::Operation::RdmaReadResponse);
    if (is_response) {
      requester_.handle_response(packet, now);
    } else {
      responder_.handle_request(packet);
    }
  }

  bool transmit(TransmitSink& sink, Instant now, unsigned budget) override {
    const bool more_responses = responder_.transmit(sink, budget);
    const bool more_requests = requester_.transmit(sink, now, budget);
    requester_.notify_if_drained();
    return more_responses || more_requests;
  }

  [[nodiscard]] bool wants_transmit() const override {
    return responder_.wants_transmit() || requester_.wants_transmit();
  }

  [[nodiscard]] Instant deadline() const override { return requester_.deadline(); }
  void handle_timeout(Instant now) override { requester_.handle_timeout(now); }
  void on_post_send() override {}

  void on_state_change(QpState from, QpState to) override {
    switch (to) {
      case QpState::Reset:
        requester_.stop();
        responder_.stop();
        return;
      case QpState::Init:
        return;
      case QpState::Rtr:
        responder_.start();
        return;
      case QpState::Rts:
        if (from == QpState::Rtr) {
          requester_.start();
        }
        return;
      case QpState::Sqd:
        requester_.drain();
        return;
      case QpState::Sqe:
        return;
      case QpState::Err:
        requester_.stop();
        responder_.enter_error();
        return;
    }
  }

  void on_loss() override { requester_.on_loss(); }

  void check_invariants() const override {
    requester_.check_invariants();
    responder_.check_invariants();
  }

 private:
  RcRequester requester_;
  RcResponder responder_;
};

}  // namespace

std::unique_ptr<Transport> make_rc_transport(QpCore& core, CarrierKind carrier,
                                             const DeviceLimits& limits) {
  return std::make_unique<RcTransport>(core, carrier, limits);
}

}  // namespace weft::hca
