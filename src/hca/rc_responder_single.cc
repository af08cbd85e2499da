#include "hca/planted_bug.h"
#include "hca/rc_responder.h"
#include "wire/opcode.h"

// Most requests are a whole message in one packet that finds everything as it should be: checked
// and executed in one go. Where anything is out of the ordinary, nothing has happened yet but that
// a receive WQE was taken for the message, as the general way does, which finds out what it is.

namespace weft::hca {

bool RcResponder::execute_single(const Packet& packet) {
  if (message_.active || core_.type != QpType::Rc || packet.payload.size() > core_.mtu_bytes() ||
      planted(PlantedBug::UnplacedWriteAcknowledged) || planted(PlantedBug::AcknowledgedTooFar) ||
      planted(PlantedBug::ReceiveWqeUsedTwice)) {
    return false;
  }
  const bool is_executed =
      packet.header.opcode == wire::Opcode::RcSendOnly
          ? execute_single_send(packet)
          : packet.header.opcode == wire::Opcode::RcRdmaWriteOnly && execute_single_write(packet);
  if (!is_executed) {
    return false;
  }
  gap_reported_ = false;
  if (core_.is_failing(Half::Responder)) [[unlikely]] {
    refuse_without_cq();
    return true;
  }
  note_acknowledge(expected_, packet.header.ack_request);
  expected_ = expected_ + 1;
  return true;
}

bool RcResponder::execute_single_send(const Packet& packet) {
  if (!ensure_receive_wqe()) {
    return false;
  }
  const ReceiveWqe& wqe = core_.current_receive;
  const std::size_t bytes = packet.payload.size();
  if (bytes != 0) {
    if (wqe.list.sges().empty() || bytes > wqe.list.sges().front().length) {
      return false;
    }
    const Sge& sge = wqe.list.sges().front();
    const MemoryTable::Found found =
        core_.memory.find(core_.pd, sge.lkey, sge.address, bytes, Access::LocalWrite);
    if (found.fault != KeyFault::None || found.discards) {
      return false;
    }
    place_last_bytes_last(found.memory, packet.payload);
  }
  msn_ = msn_ + 1;
  core_.has_current_receive = false;
  const auto fill = [&](Wc& wc) {
    wc.wr_id = wqe.wr_id;
    wc.opcode = WcOpcode::Receive;
    wc.byte_length = static_cast<std::uint32_t>(bytes);
    wc.src_qpn = core_.attributes.dest_qpn;
    wc.pkey_index = core_.attributes.pkey_index;
    wc.slid = packet.header.slid;
    wc.sl = packet.header.sl;
  };
  if (!core_.recv_cq->emplace(core_.number, packet.header.solicited, fill)) [[unlikely]] {
    core_.fail_without_cq(Half::Responder);
  }
  return true;
}

bool RcResponder::execute_single_write(const Packet& packet) {
  const wire::Reth& reth = packet.header.extension.reth;
  if (reth.dma_length != packet.payload.size() ||
      !core_.attributes.access.has(Access::RemoteWrite)) {
    return false;
  }
  const MemoryTable::Found found =
      core_.find_for_peer(reth.rkey, reth.virtual_address, reth.dma_length, Access::RemoteWrite);
  if (found.fault != KeyFault::None) {
    return false;
  }
  place_last_bytes_last(found.memory, packet.payload);
  msn_ = msn_ + 1;
  return true;
}

}  // namespace weft::hca
