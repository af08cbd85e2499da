#pragma once

#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "base/assert.h"
#include "base/bytes.h"
#include "base/result.h"
#include "base/serial.h"
#include "hca/address_handle.h"
#include "hca/atomic_operation.h"
#include "hca/types.h"

namespace weft::hca {

/// A posted send work request: first the request as posted, then the state of the engine that
/// executes it.
struct SendWqe {
  std::uint64_t wr_id{};
  WrOpcode opcode{};
  SendFlags flags;
  std::uint32_t sge_count{};
  std::uint32_t length{};  // bytes of the whole message, 0..2^31
  std::uint32_t immediate{};
  std::uint64_t remote_address{};
  RKey rkey{};
  std::uint32_t xrc_srqn{};
  std::uint64_t compare_add{};
  std::uint64_t swap{};

  /// For BindMemoryWindow; stored in the fields above.
  void set_binding(const WindowBinding& binding);
  [[nodiscard]] WindowBinding binding() const;
  /// For Flush, likewise.
  void set_flush(const FlushScope& scope);
  [[nodiscard]] FlushScope flush() const;
  /// For CompareSwap and FetchAdd.
  [[nodiscard]] AtomicOperation atomic() const;

  // State of the engine.
  Psn first_psn;
  std::uint32_t
      packet_count{};  // PSNs that the request uses (for a READ, its response packets), at least 1
  bool done{};         // acknowledged; completed in order, after those before it
  WcStatus status{WcStatus::Success};
  std::uint32_t bytes_done{};  // READ: response bytes placed so far
};

/// Destination of a datagram.
struct DatagramAddress {
  PacketRoute route;
  Qpn remote_qpn;
  QKey remote_qkey{};  // resolved: the value for the DETH
};

/// The send queue of one QP, guarded by the requester's lock. WQEs [head, tail) are indexed by
/// ever-growing numbers. Scatter/gather lists and inline data lie in storage allocated at creation,
/// so posting allocates nothing.
class SendQueue {
 public:
  /// `has_datagrams`: each WQE has a destination of its own (UD).
  SendQueue(std::uint32_t depth, std::uint32_t max_sge, std::uint32_t max_inline_bytes,
            bool has_datagrams);

  /// Copies the request in; the caller has checked it against the queue's limits and state.
  SendWqe& push(const SendWr& wr);
  /// The same for a request with at most one SGE and no operands but those of a WRITE.
  [[gnu::always_inline]] void push_plain(const SendWr& wr);

  [[nodiscard]] bool is_full() const { return tail_ - head_ == depth_; }
  [[nodiscard]] bool is_empty() const { return tail_ == head_; }
  [[nodiscard]] std::uint64_t head() const { return head_; }  ///< oldest WQE not retired
  [[nodiscard]] std::uint64_t tail() const { return tail_; }  ///< index of the next WQE posted
  /// The WQE `index`, which must be in the queue.
  [[nodiscard]] SendWqe& at(std::uint64_t index) {
    WEFT_DEBUG_ASSERT(index >= head_ && index < tail_, "the request is in the queue");
    return wqes_[slot(index)];
  }
  [[nodiscard]] DatagramAddress& address(std::uint64_t index) { return addresses_[slot(index)]; }
  [[nodiscard]] bool is_inline(std::uint64_t index) const {
    return wqes_[slot(index)].flags.has(Send::Inline);
  }
  [[nodiscard]] std::span<const Sge> sges(std::uint64_t index) const {
    const std::size_t place = slot(index);
    return {sges_.data() + place * max_sge_, wqes_[place].sge_count};
  }
  [[nodiscard]] ByteSpan inline_data(std::uint64_t index) const {
    const std::size_t place = slot(index);
    return {inline_data_.data() + place * max_inline_bytes_,
            wqes_[place].flags.has(Send::Inline) ? wqes_[place].length : 0};
  }
  /// Removes the oldest WQE.
  void retire_head() { ++head_; }
  void clear() { head_ = tail_; }

  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  /// Number of WQEs that can still be posted.
  [[nodiscard]] std::uint32_t room() const {
    return depth_ - static_cast<std::uint32_t>(tail_ - head_);
  }
  [[nodiscard]] std::uint32_t max_sge() const { return max_sge_; }
  [[nodiscard]] std::uint32_t max_inline_bytes() const { return max_inline_bytes_; }

 private:
  /// A pointer into the caller's own memory.
  [[nodiscard]] static const std::byte* bytes_at(const Sge& sge) {
    return std::bit_cast<const std::byte*>(sge.address);
  }
  [[nodiscard]] std::size_t slot(std::uint64_t index) const { return index & mask_; }

  std::uint32_t depth_;
  std::uint32_t max_sge_;
  std::uint32_t max_inline_bytes_;
  std::uint64_t head_{};
  std::uint64_t tail_{};
  std::uint64_t mask_;                      // size of the arrays below, in WQEs, minus one
  std::vector<SendWqe> wqes_;               // size is a power of two, at least depth_
  std::vector<DatagramAddress> addresses_;  // UD
  std::vector<Sge> sges_;
  std::vector<std::byte> inline_data_;
};

inline void SendQueue::push_plain(const SendWr& wr) {
  const std::size_t place = slot(tail_);
  SendWqe& wqe = wqes_[place];
  wqe.wr_id = wr.wr_id;
  wqe.opcode = wr.opcode;
  wqe.flags = wr.flags;
  wqe.immediate = wr.immediate;
  wqe.remote_address = wr.remote_address;
  wqe.rkey = wr.rkey;
  wqe.done = false;
  wqe.status = WcStatus::Success;
  wqe.packet_count = 0;
  wqe.bytes_done = 0;
  wqe.sge_count = 0;
  wqe.length = 0;
  if (!wr.sges.empty()) {
    const Sge& sge = wr.sges.front();
    wqe.length = sge.length;
    if (wr.flags.has(Send::Inline)) {
      copy_few(inline_data_.data() + place * max_inline_bytes_, bytes_at(sge), sge.length);
    } else {
      wqe.sge_count = 1;
      sges_[place * max_sge_] = sge;
    }
  }
  ++tail_;
}

}  // namespace weft::hca
