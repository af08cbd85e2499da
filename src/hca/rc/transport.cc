#include "hca/rc/transport.h"

#include <algorithm>

#include "hca/rc/requester.h"
#include "hca/rc/responder.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

class RcTransport : public Transport {
 public:
  RcTransport(QpCore& core, LossModel loss_model, const DeviceLimits& limits)
      : requester_(core, loss_model), responder_(core, limits) {}

  [[gnu::flatten]] void handle_packet(const Packet& packet, Instant now) override {
    const wire::OpcodeInfo* info = wire::opcode_info(packet.header.opcode);
    if (info != nullptr && wire::is_response(info->operation)) {
      requester_.handle_response(packet, now);
    } else {
      responder_.handle_request(packet);
    }
  }

  [[nodiscard]] bool has_halves() const override { return true; }

  [[gnu::flatten]] bool transmit_answers(TransmitSink& sink, unsigned& budget) override {
    return responder_.transmit(sink, budget);
  }

  [[gnu::flatten]] bool transmit(TransmitSink& sink, Instant now, unsigned& budget) override {
    const bool more = requester_.transmit(sink, now, budget);
    requester_.notify_if_drained();
    return more;
  }

  [[nodiscard]] bool has_responses() const override { return responder_.needs_transmit(); }
  [[nodiscard]] bool needs_transmit() const override { return requester_.needs_transmit(); }

  [[nodiscard]] Instant deadline() const override { return requester_.deadline(); }
  void handle_timeout(Instant now) override { requester_.handle_timeout(now); }

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
  void on_migration() override { requester_.on_migration(); }

  void check_invariants() const override {
    requester_.check_invariants();
    responder_.check_invariants();
  }

 protected:
  // On separate cache lines, since two threads may use them at the same time.
  alignas(64) RcRequester requester_;
  alignas(64) RcResponder responder_;
};

/// The transport of a target, whose domain other processes may share (hca/xrc_relay.h).
class XrcTargetTransport final : public RcTransport {
 public:
  using RcTransport::RcTransport;

  bool transmit_answers(TransmitSink& sink, unsigned& budget) override {
    const bool more = responder_.transmit(sink, budget);
    return responder_.transmit_call(sink) || more;
  }
  [[nodiscard]] bool has_responses() const override {
    return responder_.needs_transmit() || responder_.wants_relay();
  }
  void handle_proxy_response(const Packet& packet) override {
    responder_.handle_proxy_response(packet);
  }
  void handle_proxy(std::uint32_t slot, std::uint32_t serial, std::optional<Qpn> proxy) override {
    responder_.handle_proxy(slot, serial, proxy);
  }
  void handle_owner_gone(std::uint32_t slot) override { responder_.handle_owner_gone(slot); }
  [[nodiscard]] bool has_proxy_in(std::uint32_t slot) override {
    return responder_.has_proxy_in(slot);
  }
  void on_destruction() override { responder_.release_proxies(); }
};

}  // namespace

std::unique_ptr<Transport> make_rc_transport(QpCore& core, LossModel loss_model,
                                             const DeviceLimits& limits) {
  if (core.type == QpType::XrcTarget) {
    return std::make_unique<XrcTargetTransport>(core, loss_model, limits);
  }
  return std::make_unique<RcTransport>(core, loss_model, limits);
}

}  // namespace weft::hca
