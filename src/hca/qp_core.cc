#include "hca/qp_core.h"
#include "hca/fast_region.h"
#include "hca/packet_record.h"
#include "hca/planted_bug.h"
#include "hca/qp.h"
#include "hca/qp_state_table.h"
#include "hca/wr_kind.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace weft::hca {
namespace {

[[nodiscard]] std::uint32_t receive_depth(const QpCapabilities& capabilities,
                                          const SharedReceiveQueue* srq) {
  return srq != nullptr ? 0 : capabilities.max_recv_wr;
}

[[nodiscard]] wire::Transport transport_of(QpType type) {
  switch (type) {
    case QpType::Rc:
      return wire::Transport::Rc;
    case QpType::Uc:
      return wire::Transport::Uc;
    case QpType::Ud:
      return wire::Transport::Ud;
    case QpType::XrcInitiator:
    case QpType::XrcTarget:
      return wire::Transport::Xrc;
    case QpType::Smi:
    case QpType::Gsi:
    case QpType::RawPacket:
      break;  // Hca makes none
  }
  return wire::Transport::Rc;
}

[[nodiscard]] std::string_view invalidation_failure(KeyFault fault) {
  switch (fault) {
    case KeyFault::OtherPd:
      return "belongs to another PD";
    case KeyFault::OtherQp:
      return "is a window's that another QP bound";
    case KeyFault::CannotInvalidate:
      return "is a window's of type 1, or a region's with windows bound to it";
    default:
      return "is nobody's";
  }
}

}  // namespace

QpCore::QpCore(QpType type_, Qpn number_, ProtectionDomain& pd_, CompletionQueue* send_cq_,
               CompletionQueue* recv_cq_, SharedReceiveQueue* srq_, bool signal_all_,
               const QpCapabilities& capabilities, MemoryTable& memory_, HcaEvents& events_)
    : type(type_),
      wire_transport(transport_of(type_)),
      number(number_),
      pd(pd_),
      send_cq(send_cq_),
      recv_cq(recv_cq_),
      srq(srq_),
      receive_pd(srq_ != nullptr ? srq_->pd() : pd_),
      signal_all(signal_all_),
      memory(memory_),
      events(events_),
      send_queue(capabilities.max_send_wr, capabilities.max_send_sge, capabilities.max_inline_data,
                 type_ == QpType::Ud),
      receive_queue(receive_depth(capabilities, srq_), capabilities.max_recv_sge),
      transport_bits_(is_xrc(type_) ? static_cast<std::uint8_t>(
                                          static_cast<unsigned>(wire::Transport::Xrc) << 5)
                                    : 0) {
  attributes.capabilities = capabilities;
  current_receive.list = ScatterList{srq != nullptr ? srq->max_sge() : capabilities.max_recv_sge};
}

void QpCore::refresh_header() {
  for (Kept& kept : headers_) {
    PacketHeader& header = kept.header;
    header = PacketHeader{};
    header.sl = route.sl;
    header.slid = route.slid;
    header.dlid = route.dlid;
    header.has_grh = route.has_grh;
    header.grh = route.grh;
    header.pkey = pkey;
    header.dest_qp = attributes.dest_qpn;
    header.path_mtu_bytes = static_cast<std::uint16_t>(mtu_bytes());
    header.migrated = attributes.migration == MigrationState::Migrated;
  }
  prepared_ = {};
  if (has_fast_path && !route.has_grh && type != QpType::Ud) {
    PacketHeader header = headers_.front().header;
    header.opcode = header.last_opcode = wire::Opcode::RcSendFirst;  // 0, as are flags and PSN
    std::array<std::byte, kMaxRecordHeaderBytes> record;
    encode_record_header(header, record);
    std::array<std::uint64_t, 3> words;
    copy_few(std::as_writable_bytes(std::span{words}).data(), record.data(), sizeof words);
    prepared_ = {
        .first = words[0], .addresses = words[1], .third = words[2], .has_fast_path_header = true};
  }
}

WcStatus QpCore::no_access(std::string_view kind, LKey lkey, std::uint64_t address,
                           std::uint64_t bytes) {
  explain([&] {
    const bool is_exporter_private =
        memory.find(pd, lkey, address, bytes, {}).fault == KeyFault::OtherProcess;
    return fmt::format("QP {:#x}: no local {} through L_Key {:#x} to {} bytes at {:#x}{}",
                       number.value(), kind, lkey.value(), bytes, address,
                       is_exporter_private
                           ? ": it is an imported region's, whose memory this process has "
                             "not mapped; share it (MAP_SHARED of a file), map it in both"
                           : "");
  });
  return WcStatus::LocalProtectionError;
}

MemoryTable::Found QpCore::find_to_flush(const ProtectionDomain& of,
                                         const PacketHeader& flush) const {
  const auto& [reth, feth] = flush.extension.flush;
  std::optional<MemoryTable::Range> range;
  if (feth.selectivity == static_cast<std::uint32_t>(wire::FlushSelectivity::Range)) {
    range = {.address = reth.virtual_address, .length = reth.dma_length};
  }
  return memory.find_to_flush(of, reth.rkey, range, access_to_flush(feth.placement), number);
}

void Gather::add_pieces(const MemoryTable::Found& found, std::uint64_t length) {
  const auto add_one = [&](ByteSpan piece) {
    if (count_ + 1 >= kMaxPieces) {
      copy_together();
    }
    add(piece);
  };
  if (found.pages == nullptr) {
    add_one(found.memory);
  } else if (SignedMemory* const memory = found.pages->signed_memory()) {
    memory->visit(found.offset, length, add_one);
  } else {
    found.pages->visit(found.offset, length, add_one);
  }
}

void Gather::copy_together() {
  std::vector<std::byte> all;
  for (const ByteSpan piece : pieces()) {
    all.insert(all.end(), piece.begin(), piece.end());
  }
  copied_ = std::move(all);
  pieces_[0] = copied_;
  count_ = 1;
}

WcStatus QpCore::gather(std::uint64_t index, std::uint64_t offset, std::uint32_t length) {
  gathered.clear();
  if (length == 0) {
    return WcStatus::Success;
  }
  if (send_queue.at(index).flags.has(Send::Inline)) {
    gathered.add(send_queue.inline_data(index).subspan(offset, length));
    return WcStatus::Success;
  }
  std::uint64_t skip = offset;
  std::uint64_t left = length;
  for (const Sge& sge : send_queue.sges(index)) {
    if (skip >= sge.length) {
      skip -= sge.length;
      continue;
    }
    const std::uint64_t take = std::min<std::uint64_t>(left, sge.length - skip);
    const MemoryTable::Found found =
        memory.find(pd, sge.lkey, sge.address + skip, take, AccessFlags{});
    if (found.fault != KeyFault::None) {
      return no_access("access", sge.lkey, sge.address + skip, take);
    }
    gathered.add(found, take);
    left -= take;
    skip = 0;
    if (left == 0) {
      return WcStatus::Success;
    }
  }
  return left == 0 ? WcStatus::Success : WcStatus::LocalLengthError;
}

void QpCore::grant_placement(RKey rkey) {
  const std::optional<std::uint64_t> epoch = events.placement_epoch(*owner);
  if (!epoch) {
    return;
  }
  std::optional<PlaceableMemory> found = memory.find_placeable(pd, rkey);
  if (!found) {
    return;
  }
  const AccessFlags rights_of_qp = planted(PlantedBug::PlacedAtomicWithoutRight)
                                       ? attributes.access | Access::RemoteAtomic
                                       : attributes.access;
  found->rights = found->rights & rights_of_qp;
  has_granted_ = true;
  events.grant_placement(*owner, *epoch, *found);
}

std::span<const MutableByteSpan> QpCore::find_targets(std::uint64_t index, std::uint64_t offset,
                                                      std::uint32_t length) {
  targets_.clear();
  std::uint64_t skip = offset;
  std::uint64_t left = length;
  for (const Sge& sge : send_queue.sges(index)) {
    if (skip >= sge.length) {
      skip -= sge.length;
      continue;
    }
    const std::uint64_t take = std::min<std::uint64_t>(left, sge.length - skip);
    const MemoryTable::Found found =
        memory.find(pd, sge.lkey, sge.address + skip, take, Access::LocalWrite);
    if (found.fault != KeyFault::None || found.discards || found.pages != nullptr) {
      return {};
    }
    targets_.push_back(found.memory);
    left -= take;
    skip = 0;
    if (left == 0) {
      return targets_;
    }
  }
  return {};
}

/// What a responder was granting meanwhile is withdrawn, too.
void QpCore::end_key(RKey rkey, Half half) {
  owner->fence_key(half);
  if (memory.was_granted(rkey)) {
    events.withdraw_placement();
  }
}

WcStatus QpCore::perform_locally(const SendWqe& wqe) {
  if (wqe.opcode == WrOpcode::LocalInvalidate) {
    const KeyFault fault = memory.invalidate(pd, wqe.rkey, number);
    if (fault == KeyFault::None) {
      end_key(wqe.rkey, Half::Requester);
      return WcStatus::Success;
    }
    explain([&] {
      return fmt::format("LOCAL_INV by QP {:#x}: key {:#x} {}", number.value(), wqe.rkey.value(),
                         invalidation_failure(fault));
    });
    return WcStatus::LocalProtectionError;
  }
  if (wqe.opcode == WrOpcode::RegisterMemory) {
    const std::string_view refusal = memory.register_fast(
        pd, wqe.rkey, AccessFlags::from_bits(static_cast<std::uint32_t>(wqe.swap)));
    if (refusal.empty()) {
      return WcStatus::Success;
    }
    explain([&] {
      return fmt::format("QP {:#x} registers no memory under key {:#x}: {}", number.value(),
                         wqe.rkey.value(), refusal);
    });
    return WcStatus::MemoryWindowBindError;  // a memory management operation error, §11.6.2
  }
  const std::string_view refusal = memory.bind(pd, number, wqe.binding());
  if (refusal.empty()) {
    end_key(wqe.rkey, Half::Requester);  // the window's before
    return WcStatus::Success;
  }
  explain([&] {
    return fmt::format("QP {:#x} binds no window with R_Key {:#x}: {}", number.value(),
                       wqe.rkey.value(), refusal);
  });
  return WcStatus::MemoryWindowBindError;
}

WcStatus QpCore::scatter(const ProtectionDomain& of, std::span<const Sge> sges,
                         std::uint64_t offset, ByteSpan payload) {
  std::uint64_t skip = offset;
  for (const Sge& sge : sges) {
    if (payload.empty()) {
      break;
    }
    if (skip >= sge.length) {
      skip -= sge.length;
      continue;
    }
    const std::size_t take = std::min<std::size_t>(payload.size(), sge.length - skip);
    const MemoryTable::Found found =
        memory.find(of, sge.lkey, sge.address + skip, take, Access::LocalWrite);
    if (found.fault != KeyFault::None) {
      return no_access("write", sge.lkey, sge.address + skip, take);
    }
    if (!found.discards) {
      place(found, payload.first(take));
    }
    payload = payload.subspan(take);
    skip = 0;
  }
  return payload.empty() ? WcStatus::Success : WcStatus::LocalLengthError;
}

bool QpCore::take_receive_wqe(ReceiveWqe& into) {
  return srq != nullptr ? srq->take(into) : receive_queue.take(into);
}

void QpCore::complete_head(WcStatus status, std::uint32_t byte_length) {
  const SendWqe& wqe = send_queue.at(send_queue.head());
  const bool lost = planted(PlantedBug::CompletionLost) && wqe.wr_id % 16 == 15;
  const bool reported =
      wqe.flags.has(Send::Signaled) || signal_all || planted(PlantedBug::UnsignaledCompletes);
  if ((reported || status != WcStatus::Success) && !lost) {
    const auto make = [&](Wc& wc) {
      wc.wr_id = wqe.wr_id;
      wc.opcode = kind_of(wqe.opcode).completion;
      wc.byte_length = byte_length;
      wc.qpn = number;
    };
    if (!send_cq->push_made(false, status, make)) [[unlikely]] {
      fail_without_cq(Half::Requester);
    }
  }
  send_queue.retire_head();
}

void QpCore::complete_receive(const ReceiveWqe& wqe, Wc& wc, bool solicited) {
  wc.wr_id = wqe.wr_id;
  wc.qpn = number;
  wc.pkey_index = attributes.pkey_index;
  CompletionQueue* cq = recv_cq;
  if (current_xrc_srq != nullptr) {
    cq = current_xrc_srq->xrc().cq;
    if (proxy_for) {
      wc.qpn = proxy_for->target;
      wc.src_qpn = proxy_for->source;
      wc.slid = proxy_for->slid;
      wc.sl = proxy_for->sl;
    }
  }
  if (!cq->push(wc, solicited)) [[unlikely]] {
    if (current_xrc_srq != nullptr) {
      current_xrc_srq->enter_error();
    }
    fail_without_cq(Half::Responder);
  }
  if (current_xrc_srq != nullptr) {
    std::exchange(current_xrc_srq, nullptr)->uses.fetch_sub(1, std::memory_order_release);
  }
}

void QpCore::fail_without_cq(Half half) {
  if (state() == QpState::Err || is_failing(half)) {
    return;  // reported already, or only flushes are lost
  }
  raise(AsyncEventType::QpFatal);
  fail(half, "its completion queue overran and takes no completions any more");
}

bool QpCore::take_current_receive(SharedReceiveQueue& from) {
  if (!from.take(current_receive)) {
    return false;
  }
  from.uses.fetch_add(1, std::memory_order_relaxed);
  current_xrc_srq = &from;
  return true;
}

void QpCore::discard_receive() {
  has_current_receive = false;
  if (current_xrc_srq != nullptr) {
    std::exchange(current_xrc_srq, nullptr)->uses.fetch_sub(1, std::memory_order_release);
  }
}

void QpCore::remove_completions() {
  for (CompletionQueue* const cq : {send_cq, recv_cq}) {
    if (cq != nullptr) {
      cq->remove(number);
    }
  }
}

void QpCore::count_uses(int by) {
  const auto count = [by](auto* object) {
    if (object != nullptr) {
      object->uses.fetch_add(static_cast<std::uint32_t>(by), std::memory_order_acq_rel);
    }
  };
  count(&pd);
  count(send_cq);
  count(recv_cq);
  count(srq);
  count(xrcd);
  count(scaling.table);
}

void QpCore::flush() {
  while (!send_queue.is_empty()) {
    complete_head(WcStatus::WorkRequestFlushed);
  }
  const auto flush_receive = [&](const ReceiveWqe& wqe) {
    Wc wc;
    wc.status = WcStatus::WorkRequestFlushed;
    wc.opcode = WcOpcode::Receive;
    complete_receive(wqe, wc, false);
  };
  if (has_current_receive) {  // R-RVT-14: the one in use comes first
    has_current_receive = false;
    flush_receive(current_receive);
  }
  ReceiveWqe wqe;
  while (srq == nullptr && receive_queue.take(wqe)) {
    flush_receive(wqe);
  }
}

void QpCore::explain_flush() {
  explain([&] {
    return fmt::format("QP {:#x} is in {}: what is posted there completes as flushed",
                       number.value(), name_of(state()));
  });
}

void QpCore::enter_error_if_failing() {
  for (std::string_view& failure : failures_) {
    const std::string_view reason = std::exchange(failure, {});
    if (reason == kMigrates) {
      migrate();
    } else if (!reason.empty()) {
      enter_error(reason);
    }
  }
}

void QpCore::enter_error(std::string_view reason) {
  if (attributes.state == QpState::Err || attributes.state == QpState::Reset) {
    return;
  }
  const QpState from = attributes.state;
  explain(
      [&] { return fmt::format("QP {:#x} goes to the error state: {}", number.value(), reason); });
  attributes.state = QpState::Err;
  withdraw_placement();  // before a completion says that the memory is the consumer's again
  if (planted(PlantedBug::FlushOmitted)) {
    send_queue.clear();
  }
  flush();
  transport->on_state_change(from, QpState::Err);
  if (srq != nullptr) {
    raise(AsyncEventType::QpLastWqeReached);
  }
}

void QpCore::enter_send_queue_error(std::string_view reason) {
  const QpState from = attributes.state;
  if (from != QpState::Rts && from != QpState::Sqd) {
    return;
  }
  explain(
      [&] { return fmt::format("QP {:#x} goes to the SQE state: {}", number.value(), reason); });
  attributes.state = QpState::Sqe;
  while (!send_queue.is_empty()) {
    complete_head(WcStatus::WorkRequestFlushed);
  }
  transport->on_state_change(from, QpState::Sqe);
}

void QpCore::raise(AsyncEventType event) {
  events.async_event({.type = event, .qp = owner, .cq = nullptr, .srq = nullptr, .port = {}});
}

}  // namespace weft::hca
