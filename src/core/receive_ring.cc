#include "core/receive_ring.h"

#include <algorithm>
#include <array>
#include <bit>

#include "core/device.h"
#include "wire/grh.h"

namespace weft::core {

Result<std::unique_ptr<ReceiveRing>> ReceiveRing::make(Qp& qp, const Init& init) {
  if (init.buffers == 0 || init.buffers > qp.init().capabilities.max_recv_wr) {
    return fail(ErrorCode::InvalidArgument, "{} buffers for a receive queue of {}", init.buffers,
                qp.init().capabilities.max_recv_wr);
  }
  if (init.handler == nullptr) {
    return fail(ErrorCode::InvalidArgument, "nobody would be told of what comes");
  }
  if (qp.srq() != nullptr || qp.recv_cq() == nullptr || !qp.recv_cq()->is_managed()) {
    return fail(ErrorCode::InvalidArgument,
                "a ring is for a QP with a receive queue of its own and a CQ that the core polls");
  }
  return std::unique_ptr<ReceiveRing>{new ReceiveRing(qp, init)};
}

ReceiveRing::ReceiveRing(Qp& qp, const Init& init)
    : qp_(qp),
      init_(init),
      grh_bytes_(qp.type() == verbs::QpType::Ud
                     ? static_cast<std::uint32_t>(wire::kSizeOf<wire::Grh>)
                     : 0),
      memory_(std::size_t{init.buffers} * (grh_bytes_ + init.buffer_bytes)),
      buffers_(init.buffers) {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    buffers_[i].handler.done = done;
    buffers_[i].ring = this;
    buffers_[i].offset = i * (grh_bytes_ + init.buffer_bytes);
  }
}

ReceiveRing::~ReceiveRing() = default;

Result<void> ReceiveRing::fill() {
  for (Buffer& buffer : buffers_) {
    if (!buffer.is_posted) {
      if (auto posted = post(buffer); !posted) {
        return posted;
      }
    }
  }
  return {};
}

Result<void> ReceiveRing::post(Buffer& buffer) {
  const std::array sges{
      verbs::Sge{.address = std::bit_cast<std::uint64_t>(memory_.data() + buffer.offset),
                 .length = grh_bytes_ + init_.buffer_bytes,
                 .lkey = qp_.pd()->local_dma_lkey()}
  };
  buffer.is_posted = true;
  posted_.fetch_add(1, std::memory_order_relaxed);
  auto posted = post_recv(qp_, {.wr_id = wr_id_of(buffer.handler), .sges = sges});
  if (!posted) {
    buffer.is_posted = false;
    posted_.fetch_sub(1, std::memory_order_acq_rel);
  }
  return posted;
}

void ReceiveRing::done(Cq& /*cq*/, const Wc& wc) {
  auto* const buffer = static_cast<Buffer*>(static_cast<void*>(wc.handler()));
  buffer->ring->take(*buffer, wc);
}

void ReceiveRing::take(Buffer& buffer, const Wc& wc) {
  Environment& environment = qp_.device().environment();
  buffer.is_posted = false;
  if (wc.status == verbs::WcStatus::Success) {
    const std::uint32_t length = std::max(wc.byte_length, grh_bytes_) - grh_bytes_;
    init_.handler(init_.context, wc, ByteSpan{memory_}.subspan(buffer.offset + grh_bytes_, length));
    if (const auto posted = post(buffer); !posted) {
      environment.log(LogLevel::Warning, posted.error().reason);
    }
  }
  // Last: whoever waits for an empty ring may destroy it.
  if (posted_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    environment.notify();
  }
}

void ReceiveRing::wait_empty() {
  qp_.device().environment().wait_until([this] { return posted() == 0; }, Instant::never());
}

}  // namespace weft::core
