#pragma once

// What a target asks of whatever carries a channel: an RC QP, its CM identifier of either kind (IB
// CM or RDMA-CM), and the mover of data (rdma_rw contexts). What happens to them is told to
// srp::Target by the channel's number. A slot names a posted operation; each is reported once, with
// success or flushed, in the order of posting.

#include <cstddef>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/srp/descriptors.h"

namespace weft::srp {

/// A piece of the initiator's memory.
using Segment = wire::SrpDirectDescriptor;

class TargetConnection {
 public:
  virtual ~TargetConnection() = default;

  /// Makes CQ and QP, posts receives, and brings the QP to RTR. OutOfMemory: too few resources.
  [[nodiscard]] virtual Result<void> prepare() = 0;
  /// REP with this private data.
  virtual void accept(ByteSpan login_rsp) = 0;
  /// REJ with reason 28 and this private data.
  virtual void reject(ByteSpan login_rej) = 0;
  /// QP to RTS.
  virtual void make_ready_to_send() = 0;
  virtual void send_dreq() = 0;
  virtual void send_drep() = 0;
  /// QP to the error state: whatever is posted is flushed, and nothing is received any more.
  virtual void fail() = 0;

  // The data path. Octets stay until the operation is reported. A failure means that nothing was
  // posted and nothing will be reported.
  [[nodiscard]] virtual Result<void> post_send(std::size_t slot, ByteSpan unit) = 0;
  /// RDMA READs of all segments, in their order, into `into`, which has their length.
  [[nodiscard]] virtual Result<void> post_read(std::size_t slot, std::span<const Segment> from,
                                               MutableByteSpan into) = 0;
  /// RDMA WRITEs of `data`, whose pieces follow one another, to the first of the segments' octets,
  /// then the SEND: one chain, and one report as of a send. ShutDown: the QP is in error; another
  /// reason: this data cannot go, and a send can.
  [[nodiscard]] virtual Result<void> post_write_and_send(std::size_t slot,
                                                         std::span<const ByteSpan> data,
                                                         std::span<const Segment> to,
                                                         ByteSpan unit) = 0;
  /// An RDMA WRITE of no octets, whose key nobody checks (C9-88): behind all that is posted.
  [[nodiscard]] virtual Result<void> post_marker() = 0;
};

}  // namespace weft::srp
