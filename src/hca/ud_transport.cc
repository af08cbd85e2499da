#include "hca/ud_transport.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <string_view>

#include "hca/planted_bug.h"
#include "hca/qp.h"
#include "hca/wire_length.h"
#include "wire/grh.h"
#include "wire/layout.h"
#include "wire/lrh.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

class UdTransport final : public Transport {
 public:
  explicit UdTransport(QpCore& core) : core_(core) {}

  void handle_packet(const Packet& packet, Instant /*now*/) override {
    const QpState state = core_.state();
    if (state != QpState::Rtr && state != QpState::Rts && state != QpState::Sqd &&
        state != QpState::Sqe) {
      return;
    }
    if (packet.header.packet_count != 1 || packet.payload.size() > core_.mtu_bytes()) {
      return;  // every datagram is one packet
    }
    if (packet.header.extension.deth.qkey != core_.attributes.qkey &&
        !planted(PlantedBug::UdQKeyNotChecked)) {
      if (planted(PlantedBug::UdReceiveLostToWrongQKey)) {
        static_cast<void>(ensure_receive_wqe());
        core_.has_current_receive = false;
      }
      core_.explain([&] {
        return fmt::format("UD QP {:#x} drops a packet from QP {:#x}: Q_Key {:#x}, not {:#x}",
                           core_.number.value(), packet.header.extension.deth.src_qp.value(),
                           packet.header.extension.deth.qkey.value(),
                           core_.attributes.qkey.value());
      });
      core_.owner->report_bad_key(packet.header, BadKey::Kind::QKey);
      return;
    }
    if (core_.scaling.table != nullptr) {
      return deliver_scaled(packet);
    }
    if (!ensure_receive_wqe()) {
      core_.explain([&] {
        return fmt::format("UD QP {:#x} drops a packet: no receive WQE", core_.number.value());
      });
      return;
    }
    // An unknown sender must not be able to end the QP or use up its receives: responder class D
    // (IBTA vol 1 §9.9.3) drops silently, and the receive WQE, also of an SRQ, is kept for the QP's
    // next datagram.
    const std::uint64_t needed = kGrhBytes + packet.payload.size();
    if (needed > core_.current_receive.length && !planted(PlantedBug::UdTooLongSucceeds)) {
      core_.explain([&] {
        return fmt::format(
            "UD QP {:#x} drops a packet: a receive buffer of {} bytes for {} bytes of GRH and "
            "payload",
            core_.number.value(), core_.current_receive.length, needed);
      });
      return;
    }
    deliver(packet);
  }

  bool transmit(TransmitSink& sink, Instant /*now*/, unsigned& budget) override {
    while (needs_transmit()) {
      if (budget == 0 || !send_one(sink)) {
        return core_.state() == QpState::Rts;
      }
      --budget;
    }
    return false;
  }

  [[nodiscard]] bool needs_transmit() const override {
    return core_.state() == QpState::Rts && !core_.send_queue.is_empty() &&
           !core_.is_failing(Half::Requester);
  }
  [[nodiscard]] Instant deadline() const override { return Instant::never(); }
  void handle_timeout(Instant /*now*/) override {}
  void on_loss() override {}
  void check_invariants() const override {}

  void on_state_change(QpState from, QpState to) override {
    if (to == QpState::Rts && from == QpState::Rtr) {
      next_psn_ = core_.attributes.sq_psn;
    }
    if (to == QpState::Reset) {
      core_.has_current_receive = false;
    }
    if (to == QpState::Sqd && core_.attributes.enable_sqd_async_notify) {
      core_.raise(AsyncEventType::SqDrained);  // a datagram is done when it is sent
    }
  }

 private:
  bool ensure_receive_wqe() {
    if (!core_.has_current_receive) {
      core_.has_current_receive = core_.take_receive_wqe(core_.current_receive);
    }
    return core_.has_current_receive;
  }

  /// What a completion says of a datagram, but for its receive.
  [[nodiscard]] static Wc completion_of(const Packet& packet) {
    Wc wc;
    wc.opcode = WcOpcode::Receive;
    if (packet.header.has_grh && !planted(PlantedBug::UdGrhFlagMissing)) {
      wc.flags |= Completion::Grh;
    }
    wc.byte_length = static_cast<std::uint32_t>(kGrhBytes + packet.payload.size());
    wc.src_qpn = packet.header.extension.deth.src_qp;
    wc.slid = packet.header.slid;
    wc.sl = packet.header.sl;
    if (packet.header.opcode == wire::Opcode::UdSendOnlyWithImmediate) {
      wc.flags |= Completion::WithImmediate;
      wc.immediate = packet.header.immediate_or_rkey;
    }
    return wc;
  }

  /// GRH and payload into a receive's scatter list, of memory of `pd`.
  [[nodiscard]] WcStatus scatter(const ProtectionDomain& pd, std::span<const Sge> sges,
                                 const Packet& packet) {
    std::array<std::byte, kGrhBytes> grh{};
    if (packet.header.has_grh) {
      wire::Grh whole = packet.header.grh;
      // §8.3.1: PayLen counts everything from the BTH to the ICRC.
      whole.payload_length =
          static_cast<std::uint16_t>(4 * packet_length_words(packet.header, packet.payload.size()) -
                                     wire::kSizeOf<wire::Lrh> - wire::kSizeOf<wire::Grh>);
      grh = wire::pack(whole);
    }
    WcStatus status = core_.scatter(pd, sges, 0, grh);
    if (status == WcStatus::Success) {
      const bool is_moved =
          planted(PlantedBug::UdPayloadWithoutItsOffset) && !packet.header.has_grh;
      status = core_.scatter(pd, sges, is_moved ? 0 : kGrhBytes, packet.payload);
    }
    return planted(PlantedBug::UdTooLongSucceeds) ? WcStatus::Success : status;
  }

  void deliver(const Packet& packet) {
    Wc wc = completion_of(packet);
    wc.status = scatter(core_.receive_pd, core_.current_receive.list.sges(), packet);
    const WcStatus status = wc.status;
    core_.has_current_receive = false;
    core_.complete_receive(core_.current_receive, wc, packet.header.solicited);
    if (status != WcStatus::Success) {
      core_.enter_error("a receive WQE's scatter list is not writable memory of its queue's PD");
    }
  }

  /// To the work queue that the packet's flow belongs to. A receive that cannot be written ends
  /// that queue, which others may share, and not the QP.
  void deliver_scaled(const Packet& packet) {
    WorkQueue& queue =
        core_.scaling.table->queue_of(receive_hash(core_.scaling.hash, packet.payload));
    Wc wc = completion_of(packet);
    wc.pkey_index = core_.attributes.pkey_index;
    const auto delivery =
        queue.deliver(kGrhBytes + packet.payload.size(), wc, packet.header.solicited,
                      [&](const ProtectionDomain& pd, std::span<const Sge> sges) {
                        return scatter(pd, sges, packet);
                      });
    if (delivery != WorkQueue::Delivery::Done) {
      core_.explain([&] {
        return fmt::format("UD QP {:#x} drops a packet: its work queue {:#x} {}",
                           core_.number.value(), queue.number().value(), reason_of(delivery));
      });
    }
  }
  [[nodiscard]] static std::string_view reason_of(WorkQueue::Delivery delivery) {
    switch (delivery) {
      case WorkQueue::Delivery::NotReady:
        return "is not ready";
      case WorkQueue::Delivery::NoReceive:
        return "has no receive";
      case WorkQueue::Delivery::TooShort:
        return "has no receive of its length";
      case WorkQueue::Delivery::Done:
        break;
    }
    return "has it";
  }

  /// False if the sink has no room.
  bool send_one(TransmitSink& sink) {
    const std::uint64_t index = core_.send_queue.head();
    const SendWqe& wqe = core_.send_queue.at(index);
    if (wqe.length >
        core_.mtu_bytes()) {  // §11.6.2: reported by the completion, not by the posting verb
      core_.complete_head(WcStatus::LocalLengthError);
      core_.enter_send_queue_error("a datagram is longer than the MTU");
      return true;
    }
    if (const WcStatus status = core_.gather(index, 0, wqe.length); status != WcStatus::Success) {
      core_.complete_head(status);
      core_.enter_send_queue_error("a datagram's gather list is not readable memory of this PD");
      return true;
    }
    const bool immediate = wqe.opcode == WrOpcode::SendWithImmediate;
    PacketHeader& header = core_.header(
        Half::Requester,
        immediate ? wire::Opcode::UdSendOnlyWithImmediate : wire::Opcode::UdSendOnly, next_psn_);
    const DatagramAddress& to = core_.send_queue.address(index);
    header.sl = to.route.sl;
    header.slid = core_.source_lid(to.route);
    header.dlid = to.route.dlid;
    header.has_grh = to.route.has_grh;
    header.grh = to.route.grh;
    header.dest_qp = to.remote_qpn;
    header.solicited = wqe.flags.has(Send::Solicited);
    header.immediate_or_rkey = wqe.immediate;
    header.extension.deth = wire::Deth{.qkey = to.remote_qkey, .src_qp = core_.external_number};
    if (!sink.send(Flow::Request, header, core_.gathered.pieces())) {
      return false;
    }
    if (!planted(PlantedBug::UdPsnRepeated) || next_psn_.value() % 16 != 0) {
      ++next_psn_;
    }
    core_.complete_head(WcStatus::Success, wqe.length);
    return true;
  }

  QpCore& core_;
  Psn next_psn_;
};

}  // namespace

std::unique_ptr<Transport> make_ud_transport(QpCore& core) {
  return std::make_unique<UdTransport>(core);
}

}  // namespace weft::hca
