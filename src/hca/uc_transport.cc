#include "hca/uc_transport.h"

#include <algorithm>
#include <utility>

#include "hca/invariant.h"
#include "hca/planted_bug.h"
#include "hca/train.h"
#include "hca/wr_kind.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

using wire::Operation;
using wire::Position;

[[nodiscard]] bool starts(const wire::OpcodeInfo& info) {
  return info.position == Position::First || info.position == Position::Only;
}
[[nodiscard]] bool ends(const wire::OpcodeInfo& info) {
  return info.position == Position::Last || info.position == Position::Only;
}

class UcTransport final : public Transport {
 public:
  explicit UcTransport(QpCore& core) : core_(core) {}

  // --- responder (IBTA vol 1 §9.8.2.2)
  void handle_packet(const Packet& packet, Instant /*now*/) override {
    const QpState state = core_.state();
    if (state == QpState::Reset || state == QpState::Init || state == QpState::Err) {
      return;
    }
    for (std::uint32_t i = 0; i < packet.header.packet_count && core_.state() != QpState::Err;
         ++i) {
      handle_single(single_of_train(packet, i));
    }
  }

  // --- requester (IBTA vol 1 §9.8.2.1)
  bool transmit(TransmitSink& sink, Instant /*now*/, unsigned& budget) override {
    while (needs_transmit()) {
      if (budget == 0 || !send_part(sink)) {
        return core_.state() == QpState::Rts;
      }
      --budget;
    }
    return false;
  }

  [[nodiscard]] bool needs_transmit() const override {
    const bool may_send =
        core_.state() == QpState::Rts || (core_.state() == QpState::Sqd && sent_packets_ != 0);
    return may_send && !core_.send_queue.is_empty() && !core_.is_failing(Half::Requester);
  }
  [[nodiscard]] Instant deadline() const override { return Instant::never(); }
  void handle_timeout(Instant /*now*/) override {}
  void on_loss() override {}
  void check_invariants() const override {
    invariant(!in_message_ || is_write_ || core_.has_current_receive,
              "!in_message_ || is_write_ || core_.has_current_receive");
  }

  void on_state_change(QpState from, QpState to) override {
    if (to == QpState::Rtr) {
      expected_ = core_.attributes.rq_psn;
      established_reported_ = false;
      drop_message();
      core_.has_current_receive = false;
    }
    if (to == QpState::Rts && from == QpState::Rtr) {
      next_psn_ = core_.attributes.sq_psn;
      sent_packets_ = 0;
    }
    if (to == QpState::Err || to == QpState::Reset || to == QpState::Sqe) {
      sent_packets_ = 0;
    }
    if (to == QpState::Err || to == QpState::Reset) {
      drop_message();
      core_.has_current_receive = false;
    }
    if (to == QpState::Sqd) {
      notify_if_drained();
    }
  }

 private:
  void notify_if_drained() {
    if (core_.state() == QpState::Sqd && sent_packets_ == 0 &&
        core_.attributes.enable_sqd_async_notify) {
      core_.raise(AsyncEventType::SqDrained);
    }
  }

  void drop_message() {
    if (planted(PlantedBug::UcReceiveLostWithMessage) && in_message_) {
      core_.has_current_receive = false;
    }
    if (planted(PlantedBug::UcRestOfMessageIsMessage)) {
      bytes_ = 0;
      return;
    }
    in_message_ = false;
  }

  void handle_single(const Packet& packet) {
    const wire::OpcodeInfo* info = wire::opcode_info(packet.header.opcode);
    if (info == nullptr ||
        (info->operation != Operation::Send && info->operation != Operation::RdmaWrite)) {
      return;
    }
    if (core_.state() == QpState::Rtr && !std::exchange(established_reported_, true)) {
      core_.raise(AsyncEventType::CommunicationEstablished);  // R-RVT-16
    }
    const bool gap = packet.header.psn != expected_ && !planted(PlantedBug::UcPsnNotChecked) &&
                     !(planted(PlantedBug::UcLostMiddleCompletes) && ends(*info));
    expected_ = packet.header.psn + 1;
    if (gap) {
      drop_message();  // the rest of a message with a gap is dropped; the next First or Only packet
                       // starts a new one
    }
    const bool is_write = info->operation == Operation::RdmaWrite;
    if (starts(*info) ? false : !in_message_ || is_write != is_write_) {
      drop_message();
      return;
    }
    if (starts(*info) && !begin(packet, is_write)) {
      return;
    }
    const std::size_t mtu = core_.mtu_bytes();
    const bool is_last = ends(*info);
    if (packet.payload.size() > mtu || (!is_last && packet.payload.size() != mtu)) {
      drop_message();
      return;
    }
    if (is_write ? place_write(packet, is_last, *info) : place_send(packet)) {
      if (is_last) {
        finish(packet, *info);
      }
    }
  }

  bool begin(const Packet& packet, bool is_write) {
    in_message_ = false;
    if (is_write) {
      const wire::Reth reth = packet.header.extension.reth;
      if (!core_.attributes.access.has(Access::RemoteWrite) ||
          writable(reth, 0, reth.dma_length).fault != KeyFault::None) {
        core_.explain(
            [] { return std::string{"a UC WRITE without the right to write there is dropped"}; });
        return false;
      }
      reth_ = reth;
    } else if (!core_.has_current_receive) {
      core_.has_current_receive = core_.take_receive_wqe(core_.current_receive);
      if (!core_.has_current_receive) {
        return false;  // no receive WQE: the message is dropped silently
      }
    }
    in_message_ = true;
    is_write_ = is_write;
    bytes_ = 0;
    return true;
  }

  /// Looks up bytes [offset, offset + length) of an RDMA WRITE, with write access.
  [[nodiscard]] MemoryTable::Found writable(const wire::Reth& reth, std::uint64_t offset,
                                            std::uint64_t length) const {
    if (planted(PlantedBug::UcWritePastItsKey) && length != 0) {
      const MemoryTable::Found first =
          core_.find_for_peer(reth.rkey, reth.virtual_address, 1, Access::RemoteWrite);
      return {
          .fault = first.fault, .memory = {first.memory.data() + offset, length}
      };
    }
    return core_.find_for_peer(reth.rkey, reth.virtual_address + offset, length,
                               Access::RemoteWrite);
  }

  bool place_send(const Packet& packet) {
    Wc wc;
    wc.opcode = WcOpcode::Receive;
    wc.status = bytes_ + packet.payload.size() > core_.current_receive.length
                    ? WcStatus::LocalLengthError
                    : core_.scatter(core_.receive_pd, core_.current_receive.list.sges(), bytes_,
                                    packet.payload);
    if (wc.status != WcStatus::Success) {
      in_message_ = core_.has_current_receive = false;
      core_.complete_receive(core_.current_receive, wc, true);
      core_.enter_error("a message does not fit its receive WQE");
      return false;
    }
    bytes_ += packet.payload.size();
    return true;
  }

  bool place_write(const Packet& packet, bool is_last, const wire::OpcodeInfo& info) {
    const std::uint64_t after = bytes_ + packet.payload.size();
    if (is_last ? after != reth_.dma_length : after >= reth_.dma_length) {
      drop_message();
      return false;
    }
    if (info.headers.has(wire::ExtensionHeader::Immediate) && !core_.has_current_receive) {
      core_.has_current_receive = core_.take_receive_wqe(core_.current_receive);
      if (!core_.has_current_receive) {
        drop_message();
        return false;
      }
    }
    const MemoryTable::Found found = writable(reth_, bytes_, packet.payload.size());
    if (found.fault != KeyFault::None) {
      drop_message();
      return false;
    }
    if (!packet.payload.empty()) {
      place(found, packet.payload);
    }
    bytes_ = after;
    return true;
  }

  void finish(const Packet& packet, const wire::OpcodeInfo& info) {
    in_message_ = false;
    const bool immediate = info.headers.has(wire::ExtensionHeader::Immediate);
    if (is_write_ && !immediate) {
      return;
    }
    Wc wc;
    wc.opcode = is_write_ ? WcOpcode::ReceiveRdmaWithImmediate : WcOpcode::Receive;
    wc.byte_length = static_cast<std::uint32_t>(bytes_);
    wc.src_qpn = core_.attributes.dest_qpn;
    wc.slid = packet.header.slid;
    wc.sl = packet.header.sl;
    if (immediate) {
      wc.flags |= Completion::WithImmediate;
      wc.immediate = packet.header.immediate_or_rkey;
    }
    core_.has_current_receive = false;
    core_.complete_receive(core_.current_receive, wc, packet.header.solicited);
  }

  void perform_locally(const SendWqe& wqe) {
    const WcStatus status = core_.perform_locally(wqe);
    core_.complete_head(status);
    if (status != WcStatus::Success) {
      core_.enter_send_queue_error("a local operation on a key failed");
    }
  }

  /// Sends one packet or train of the oldest message; false if the sink has no room.
  bool send_part(TransmitSink& sink) {
    const std::uint64_t index = core_.send_queue.head();
    const SendWqe& wqe = core_.send_queue.at(index);
    if (has(wqe.opcode, WrTrait::Local)) {
      perform_locally(wqe);
      return true;
    }
    const std::uint32_t mtu = core_.mtu_bytes();
    const std::uint32_t packets = wqe.length == 0 ? 1 : (wqe.length + (mtu - 1)) / mtu;
    const std::uint32_t left = packets - sent_packets_;
    const std::uint32_t count =
        std::min(left, std::max<std::uint32_t>(1, sink.max_train_bytes() / mtu));
    const std::uint64_t offset = std::uint64_t{sent_packets_} * mtu;
    const auto bytes = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(std::uint64_t{count} * mtu, wqe.length - offset));
    if (const WcStatus status = core_.gather(index, offset, bytes); status != WcStatus::Success) {
      core_.complete_head(status);
      core_.enter_send_queue_error("a message's gather list is not readable memory of this PD");
      return true;
    }
    const bool is_write =
        wqe.opcode == WrOpcode::RdmaWrite || wqe.opcode == WrOpcode::RdmaWriteWithImmediate;
    const bool with_immediate =
        wqe.opcode == WrOpcode::SendWithImmediate || wqe.opcode == WrOpcode::RdmaWriteWithImmediate;
    const auto opcode = [&](bool first, bool last) {
      const Position position = first ? (last ? Position::Only : Position::First)
                                      : (last ? Position::Last : Position::Middle);
      return wire::make_opcode(wire::Transport::Uc,
                               is_write ? Operation::RdmaWrite : Operation::Send, position,
                               last && with_immediate, false);
    };
    const bool first = sent_packets_ == 0;
    const bool last = count == left;
    PacketHeader& header =
        core_.header(Half::Requester, opcode(first, last && count == 1), next_psn_);
    header.last_opcode = count == 1 ? header.opcode : opcode(false, last);
    header.packet_count = static_cast<std::uint16_t>(count);
    header.solicited = last && wqe.flags.has(Send::Solicited);
    header.immediate_or_rkey = wqe.immediate;
    if (first && is_write) {
      header.extension.reth = wire::Reth{
          .virtual_address = wqe.remote_address, .rkey = wqe.rkey, .dma_length = wqe.length};
    }
    if (!sink.send(Flow::Request, header, core_.gathered.pieces())) {
      return false;
    }
    next_psn_ = next_psn_ + count;
    sent_packets_ += count;
    if (last) {
      sent_packets_ = 0;
      core_.complete_head(WcStatus::Success, wqe.length);
      notify_if_drained();
    }
    return true;
  }

  QpCore& core_;
  Psn next_psn_;
  std::uint32_t sent_packets_{};  // of the message at the head
  Psn expected_;
  bool established_reported_{};
  bool in_message_{};
  bool is_write_{};
  std::uint64_t bytes_{};
  wire::Reth reth_;
};

}  // namespace

std::unique_ptr<Transport> make_uc_transport(QpCore& core) {
  return std::make_unique<UcTransport>(core);
}

}  // namespace weft::hca
