#include "hca/send_queue.h"

#include <bit>

#include "base/assert.h"

namespace weft::hca {

SendQueue::SendQueue(std::uint32_t depth, std::uint32_t max_sge, std::uint32_t max_inline_bytes,
                     bool has_datagrams)
    : depth_(depth),
      max_sge_(max_sge),
      max_inline_bytes_(max_inline_bytes),
      mask_(std::bit_ceil(depth) - 1),
      wqes_(std::bit_ceil(depth)),
      addresses_(has_datagrams ? wqes_.size() : 0),
      sges_(wqes_.size() * max_sge),
      inline_data_(wqes_.size() * max_inline_bytes) {}

void SendWqe::set_binding(const WindowBinding& binding) {
  rkey = binding.rkey;
  remote_address = binding.address;
  compare_add = binding.length;
  swap = std::uint64_t{binding.access.bits()} << 32 | binding.lkey.value();
}

WindowBinding SendWqe::binding() const {
  return {.rkey = rkey,
          .lkey = LKey{static_cast<std::uint32_t>(swap)},
          .address = remote_address,
          .length = compare_add,
          .access = AccessFlags::from_bits(static_cast<std::uint32_t>(swap >> 32))};
}

void SendWqe::set_flush(const FlushScope& scope) {
  compare_add = scope.length;
  swap = std::uint64_t{scope.placement} << 32 | static_cast<std::uint64_t>(scope.selectivity);
}

FlushScope SendWqe::flush() const {
  return {.length = static_cast<std::uint32_t>(compare_add),
          .placement = static_cast<std::uint8_t>(swap >> 32),
          .selectivity = static_cast<wire::FlushSelectivity>(swap & 0xFF)};
}

AtomicOperation SendWqe::atomic() const {
  const bool compares = opcode == WrOpcode::CompareSwap;
  return {.compares = compares,
          .swap_or_add = compares ? swap : compare_add,
          .compare = compares ? compare_add : 0};
}

SendWqe& SendQueue::push(const SendWr& wr) {
  WEFT_DEBUG_ASSERT(!is_full(), "a full queue was refused");
  const std::size_t place = slot(tail_);
  SendWqe& wqe = wqes_[place];
  wqe.wr_id = wr.wr_id;
  wqe.opcode = wr.opcode;
  wqe.flags = wr.flags;
  wqe.immediate = wr.immediate;
  wqe.remote_address = wr.remote_address;
  wqe.rkey = wr.rkey;
  wqe.xrc_srqn = wr.xrc_srqn;
  wqe.compare_add = wr.compare_add;
  wqe.swap = wr.swap;
  if (wr.binding != nullptr) [[unlikely]] {
    wqe.set_binding(*wr.binding);
  }
  if (wr.opcode == WrOpcode::Flush) [[unlikely]] {
    wqe.set_flush(wr.flush);
  }
  if (wr.ah != nullptr && !addresses_.empty()) {
    addresses_[place] = {
        .route = wr.ah->route(), .remote_qpn = wr.remote_qpn, .remote_qkey = wr.remote_qkey};
  }
  wqe.done = false;
  wqe.status = WcStatus::Success;
  wqe.packet_count = 0;
  wqe.bytes_done = 0;
  std::uint64_t length = 0;
  if (wqe.flags.has(Send::Inline)) {
    wqe.sge_count = 0;
    std::byte* to = inline_data_.data() + place * max_inline_bytes_;
    for (const Sge& sge : wr.sges) {
      copy_few(to + length, bytes_at(sge), sge.length);
      length += sge.length;
    }
  } else {
    wqe.sge_count = static_cast<std::uint32_t>(wr.sges.size());
    Sge* to = sges_.data() + place * max_sge_;
    for (const Sge& sge : wr.sges) {
      *to++ = sge;
      length += sge.length;
    }
  }
  wqe.length = static_cast<std::uint32_t>(length);
  ++tail_;
  return wqe;
}

}  // namespace weft::hca
