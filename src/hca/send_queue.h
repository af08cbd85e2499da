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
#include "hca/types.h"

namespace weft::hca {

/// A posted send work request. The first part is what was asked; the second belongs to the engine
/// that executes it.
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

  /// Of BindMemoryWindow; it lies in the fields above.
  void set_binding(const WindowBinding& binding);
  [[nodiscard]] WindowBinding binding() const;
  /// Of Flush, likewise.
  void set_flush(const FlushScope& scope);
  [[nodiscard]] FlushScope flush() const;

  // Engine's part.
  Psn first_psn;
  std::uint32_t
      packet_count{};  // PSNs that the request takes (for READ: its response packets), at least 1
  bool done{};         // its work is acknowledged; completed in order with those before it
  WcStatus status{WcStatus::Success};
  std::uint32_t bytes_done{};  // READ: response bytes placed so far
};

/// Where a datagram goes.
struct DatagramAddress {
  PacketRoute route;
  Qpn remote_qpn;
  QKey remote_qkey{};  // already resolved to the one that goes on the wire
};

/// The send queue of one QP, under the QP's lock: WQEs [head, tail) by ever-growing index.
/// Scatter/gather lists and inline data lie in storage made at creation, so posting allocates
/// nothing.
class SendQueue {
 public:
  /// `has_datagrams`: each WQE has an address of its own.
  SendQueue(std::uint32_t depth, std::uint32_t max_sge, std::uint32_t max_inline_bytes,
            bool has_datagrams);

  /// Copies the request in; the caller has checked it against the queue's limits and state.
  SendWqe& push(const SendWr& wr);
  /// The same of one that has at most one SGE and no other operands than a WRITE has.
  [[gnu::always_inline]] void push_plain(const SendWr& wr);

  [[nodiscard]] bool is_full() const { return tail_ - head_ == depth_; }
  [[nodiscard]] bool is_empty() const { return tail_ == head_; }
  [[nodiscard]] std::uint64_t head() const { return head_; }  ///< oldest not yet retired
  [[nodiscard]] std::uint64_t tail() const { return tail_; }  ///< where the next is posted
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
  void retire_head() { ++head_; }
  void clear() { head_ = tail_; }

  [[nodiscard]] std::uint32_t depth() const { return depth_; }
  [[nodiscard]] std::uint32_t room() const {
    return depth_ - static_cast<std::uint32_t>(tail_ - head_);
  }
  [[nodiscard]] std::uint32_t max_sge() const { return max_sge_; }
  [[nodiscard]] std::uint32_t max_inline_bytes() const { return max_inline_bytes_; }

 private:
  /// The caller's own memory.
  [[nodiscard]] static const std::byte* bytes_at(const Sge& sge) {
    return std::bit_cast<const std::byte*>(sge.address);
  }
  [[nodiscard]] std::size_t slot(std::uint64_t index) const { return index & mask_; }

  std::uint32_t depth_;
  std::uint32_t max_sge_;
  std::uint32_t max_inline_bytes_;
  std::uint64_t head_{};
  std::uint64_t tail_{};
  std::uint64_t mask_;                      // of the places below
  std::vector<SendWqe> wqes_;               // a power of two of them, at least depth_
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
