#include "ulp/iser/shared_receives.h"

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "base/assert.h"

namespace weft::iser {

Result<std::unique_ptr<SharedReceives>> SharedReceives::create(
    core::Environment& environment, core::Pd& pd, const SharedReceiveOptions& options) {
  WEFT_ASSERT(options.first != 0 && options.first <= options.most, "buffers are made and bounded");
  std::unique_ptr<SharedReceives> made{
      new SharedReceives{environment, pd, options}
  };
  core::SrqInit init;
  init.attributes = {.max_wr = options.most, .max_sge = 1};
  init.event_handler = handle_event;
  init.context = made.get();
  init.caller = options.caller;
  const auto srq = core::create_srq(pd, init);
  if (!srq) {
    return std::unexpected(srq.error());
  }
  made->srq_ = *srq;
  made->make(options.first);
  if (auto posted = made->post(made->free_.size()); !posted) {
    return std::unexpected(posted.error());
  }
  if (auto armed = made->arm(); !armed) {
    return std::unexpected(armed.error());
  }
  return made;
}

SharedReceives::SharedReceives(core::Environment& environment, core::Pd& pd,
                               const SharedReceiveOptions& options)
    : pd_(pd),
      options_(options),
      limit_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { handle_limit(); }),
      error_work_(environment, core::WorkContext::UnboundWorkQueue, 0, [this] { ++errors_; }) {}

SharedReceives::~SharedReceives() {
  WEFT_ASSERT(channels_.empty(), "channels go before what they share");
  if (srq_ != nullptr) {
    const auto gone = core::destroy_srq(*srq_);  // no event comes after it
    WEFT_ASSERT(gone, "no QP uses it");
  }
  limit_work_.cancel_and_wait();
  error_work_.cancel_and_wait();
}

/// In the driver's thread.
void SharedReceives::handle_event(const core::Event& event, void* self) {
  auto& shared = *static_cast<SharedReceives*>(self);
  if (event.type == verbs::AsyncEventType::SrqLimitReached) {
    shared.limit_work_.queue();
  } else if (event.type == verbs::AsyncEventType::SrqError) {
    shared.error_work_.queue();
  }
}

/// The event comes once (IBTA vol 1 §10.2.9.3), and is armed again.
void SharedReceives::handle_limit() {
  ++limit_events_;
  const auto made = static_cast<std::uint32_t>(buffers_.size());
  make(std::min(made, options_.most - made));  // twice as many
  std::ignore = post(free_.size());            // refused: the SRQ is in error, and says so itself
  std::ignore = arm();
}

void SharedReceives::make(std::uint32_t count) {
  for (std::uint32_t i = 0; i < count; ++i) {
    auto buffer = std::make_unique<ReceiveBuffer>();
    buffer->handler.done = Channel::handle_receive;
    buffer->shared = this;
    buffer->octets.resize(options_.bytes);
    free_.push_back(buffer.get());
    buffers_.push_back(std::move(buffer));
  }
}

Result<void> SharedReceives::post(std::size_t count) {
  if (count == 0) {
    return {};
  }
  std::vector<verbs::Sge> sges(count);
  std::vector<core::RecvWr> chain(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::vector<std::byte>& octets = free_[i]->octets;
    sges[i] = {.address = std::bit_cast<std::uint64_t>(octets.data()),
               .length = static_cast<std::uint32_t>(octets.size()),
               .lkey = pd_.local_dma_lkey()};
    chain[i] = {
        .wr_id = core::wr_id_of(free_[i]->handler), .sges = {&sges[i], 1}
    };
    chain[i].next = i + 1 < count ? &chain[i + 1] : nullptr;
  }
  auto posted = core::post_srq_recv(*srq_, chain.front());
  if (posted) {
    free_.erase(free_.begin(), free_.begin() + static_cast<std::ptrdiff_t>(count));
    posted_ += static_cast<std::uint32_t>(count);
  }
  return posted;
}

/// A quarter of what is there; none once there can be no more, since then RNR NAKs say all.
Result<void> SharedReceives::arm() {
  const auto buffers = static_cast<std::uint32_t>(buffers_.size());
  return core::modify_srq(*srq_, std::nullopt, buffers < options_.most ? buffers / 4 : 0);
}

SharedReceiveCounters SharedReceives::counters() const {
  return {.buffers = static_cast<std::uint32_t>(buffers_.size()),
          .posted = posted_,
          .limit_events = limit_events_,
          .errors = errors_};
}

void SharedReceives::add(Channel& channel) { channels_.emplace(&channel.qp(), &channel); }

void SharedReceives::remove(Channel& channel) { channels_.erase(&channel.qp()); }

Channel* SharedReceives::channel_of(const core::Qp* qp) const {
  const auto found = channels_.find(qp);
  return found == channels_.end() ? nullptr : found->second;
}

/// An eighth of them at a time, which stays above the limit.
void SharedReceives::give_back(ReceiveBuffer& buffer) {
  free_.push_back(&buffer);
  if (free_.size() * 8 >= buffers_.size()) {
    std::ignore = post(free_.size());
  }
}

}  // namespace weft::iser
