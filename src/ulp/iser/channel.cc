#include "ulp/iser/channel.h"

#include <bit>
#include <utility>

#include "base/assert.h"
#include "ulp/iser/shared_receives.h"

namespace weft::iser {
Result<std::unique_ptr<Channel>> Channel::create(core::Pd& pd, const ChannelOptions& options,
                                                 ChannelClient& client) {
  std::unique_ptr<Channel> channel{
      new Channel{pd, client}
  };
  // One channel might be sent as many messages as there are shared buffers.
  const std::uint32_t receives =
      options.shared != nullptr ? options.shared->most() : options.receive_depth;
  const core::CqInit cq{.entries = options.send_depth + receives + 2,
                        .poll_context = core::PollContext::WorkQueue,
                        .lingers = options.cq_lingers,
                        .context = channel.get(),
                        .caller = options.caller,
                        .on_batch_end = [](core::Cq& ended) {
                          static_cast<Channel*>(ended.context())->client_.handle_batch_end();
                        }};
  const auto made_cq = core::allocate_any_cq(pd.device(), cq);
  if (!made_cq) {
    return std::unexpected(made_cq.error());
  }
  channel->cq_ = *made_cq;
  core::QpInit init;
  init.send_cq = channel->cq_;
  init.recv_cq = channel->cq_;
  init.srq = options.shared != nullptr ? &options.shared->srq() : nullptr;
  init.capabilities = {.max_send_wr = options.send_depth + 1,  // markers
                       .max_recv_wr = options.shared != nullptr ? 0 : options.receive_depth + 1,
                       .max_send_sge = kMaxSges,
                       .max_recv_sge = 1};
  init.max_rdma_contexts = options.regions;
  if (options.has_integrity) {
    init.flags = core::QpCreateFlag::IntegrityEnabled;
  }
  init.caller = options.caller;
  init.event_handler = options.qp_event;
  init.context = options.qp_context;
  const auto made = core::create_qp(pd, init);
  if (!made) {
    return std::unexpected(made.error());
  }
  channel->qp_ = *made;
  if (options.shared != nullptr) {
    channel->shared_ = options.shared;
    channel->shared_->add(*channel);
  }
  channel->sends_ = std::make_unique<SendQueue>(
      **made,
      SendQueue::Options{.depth = options.send_depth, .signal_interval = options.signal_interval},
      [&self = *channel](verbs::WcStatus status) {
        if (self.is_draining_) {
          return;  // what is flushed makes no room that matters
        }
        if (status == verbs::WcStatus::Success) {
          self.client_.handle_room();
        } else {
          self.client_.handle_failure(status);
        }
      });
  return channel;
}

Channel::~Channel() {
  if (shared_ != nullptr) {
    shared_->remove(*this);
  }
  if (qp_ != nullptr) {
    const auto gone = core::destroy_qp(*qp_);
    WEFT_ASSERT(gone, "a QP without multicast groups can go");
  }
  if (cq_ != nullptr) {
    const auto gone = core::free_cq(*cq_);
    WEFT_ASSERT(gone, "the CQ is this QP's alone");
  }
}

verbs::Sge Channel::sge_of(ByteSpan octets) const {
  return {.address = std::bit_cast<std::uint64_t>(octets.data()),
          .length = static_cast<std::uint32_t>(octets.size()),
          .lkey = pd_.local_dma_lkey()};
}

std::unique_ptr<SendRequest> Channel::make_send(std::vector<std::byte>&& octets) {
  auto request = sends_->take();
  request->octets = std::move(octets);
  return finish_send(std::move(request));
}

std::unique_ptr<SendRequest> Channel::make_send(ByteSpan octets) {
  auto request = sends_->take();
  request->octets.assign(octets.begin(), octets.end());
  return finish_send(std::move(request));
}

std::unique_ptr<SendRequest> Channel::finish_send(std::unique_ptr<SendRequest> request) const {
  request->sges.push_back(sge_of(request->octets));
  request->wr.opcode = verbs::WrOpcode::Send;
  return request;
}

core::RecvWr Channel::receive_of(ReceiveBuffer& buffer, verbs::Sge& sge) const {
  sge = sge_of(buffer.octets);
  return {
      .wr_id = core::wr_id_of(buffer.handler), .sges = {&sge, 1}
  };
}

Result<void> Channel::post_single(std::size_t bytes) {
  auto buffer = std::make_unique<ReceiveBuffer>();
  buffer->handler.done = handle_receive;
  buffer->channel = this;
  buffer->octets.resize(bytes);
  verbs::Sge sge;
  auto posted = core::post_recv(*qp_, receive_of(*buffer, sge));
  if (posted) {
    buffers_.push_back(std::move(buffer));
    ++posted_receives_;
  }
  return posted;
}

Result<void> Channel::open_ring(std::uint32_t count, std::size_t bytes) {
  WEFT_ASSERT(std::has_single_bit(count) && ring_batch_ == 0, "a ring is opened once");
  ring_batch_ = std::max(1U, count / 4);
  for (std::uint32_t i = 0; i < count; ++i) {
    auto buffer = std::make_unique<ReceiveBuffer>();
    buffer->handler.done = handle_receive;
    buffer->channel = this;
    buffer->octets.resize(bytes);
    buffer->is_of_ring = true;
    free_.push_back(buffer.get());
    buffers_.push_back(std::move(buffer));
  }
  return post_batch(count);
}

Result<void> Channel::post_batch(std::uint32_t count) {
  std::vector<verbs::Sge> sges(count);
  std::vector<core::RecvWr> chain(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    chain[i] = receive_of(*free_[i], sges[i]);
    chain[i].next = i + 1 < count ? &chain[i + 1] : nullptr;
  }
  auto posted = core::post_recv(*qp_, chain.front());
  if (posted) {
    free_.erase(free_.begin(), free_.begin() + count);
    posted_receives_ += count;
    ++receive_batches_;
  }
  return posted;
}

void Channel::give_back(ReceiveBuffer& buffer) {
  if (buffer.shared != nullptr) {
    buffer.shared->give_back(buffer);
    return;
  }
  if (!buffer.is_of_ring) {
    std::erase_if(buffers_, [&](const auto& one) { return one.get() == &buffer; });
    return;
  }
  free_.push_back(&buffer);
  if (free_.size() >= ring_batch_ && !is_draining_) {
    std::ignore = post_batch(ring_batch_);  // refused: the QP is in error, and says so itself
  }
}

void Channel::handle_receive(core::Cq& /*cq*/, const core::Wc& wc) {
  // The handler is the buffer's first member.
  auto* const buffer = static_cast<ReceiveBuffer*>(static_cast<void*>(wc.handler()));
  SharedReceives* const shared = buffer->shared;
  Channel* const found = shared != nullptr ? shared->channel_of(wc.qp) : buffer->channel;
  WEFT_ASSERT(found != nullptr, "a channel's CQ goes with it");
  Channel& channel = *found;
  if (shared != nullptr) {
    shared->take(*buffer);
  } else {
    --channel.posted_receives_;
  }
  if (wc.status != verbs::WcStatus::Success) {
    if (shared != nullptr) {
      shared->give_back(*buffer);
    }
    if (!channel.is_draining_) {
      channel.client_.handle_failure(wc.status);
    }
    return;
  }
  std::optional<RKey> invalidated;
  if (wc.flags.has(verbs::Completion::WithInvalidate)) {
    invalidated = wc.invalidated_rkey;
  }
  channel.client_.handle_message(*buffer, ByteSpan{buffer->octets}.first(wc.byte_length),
                                 invalidated);
}

void Channel::drain() {
  if (std::exchange(is_draining_, true)) {
    return;
  }
  core::QpModify modify;
  modify.mask = verbs::QpAttribute::State;
  modify.attributes.state = verbs::QpState::Err;
  const auto stopped = core::modify_qp(*qp_, modify);
  WEFT_ASSERT(stopped, "every QP can go to ERR");
  if (shared_ != nullptr) {
    markers_ = 1;
    if (has_last_receive_) {
      post_send_marker();
    }
    return;
  }
  markers_ = 2;
  receive_marker_ = {.handler = {.done = handle_marker}, .channel = this};
  const core::RecvWr receive{.wr_id = core::wr_id_of(receive_marker_.handler)};
  const auto received = core::post_recv(*qp_, receive);
  WEFT_ASSERT(received, "there is room for the marker");
  post_send_marker();
}

void Channel::post_send_marker() {
  const auto sent = sends_->post_marker([this] { finish_marker(); });
  WEFT_ASSERT(sent, "there is room for the marker");
}

/// What the last receive left in the CQ comes before a marker that is posted now.
void Channel::handle_last_receive() {
  if (shared_ != nullptr && !std::exchange(has_last_receive_, true) && is_draining_) {
    post_send_marker();
  }
}

void Channel::handle_marker(core::Cq& /*cq*/, const core::Wc& wc) {
  static_cast<Marker*>(static_cast<void*>(wc.handler()))->channel->finish_marker();
}

void Channel::finish_marker() {
  if (--markers_ == 0) {
    client_.handle_drained();
  }
}

}  // namespace weft::iser
