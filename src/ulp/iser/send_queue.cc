#include "ulp/iser/send_queue.h"

#include <utility>

#include "base/assert.h"

namespace weft::iser {

SendQueue::SendQueue(core::Qp& qp, Options options, std::function<void(verbs::WcStatus)> handle_end)
    : qp_(qp), options_(options), handle_end_(std::move(handle_end)) {
  WEFT_ASSERT(options.signal_interval != 0 && options.signal_interval <= options.depth,
              "a full queue has a signalled request in it");
}

Result<void> SendQueue::post(SendRequests requests) {
  if (requests.size() > room()) {
    return fail(ErrorCode::TryAgain, "{} work requests and room for {}: wait for completions",
                requests.size(), room());
  }
  const std::size_t before = posted_.size();
  for (std::unique_ptr<SendRequest>& request : requests) {
    request->handler.done = handle_completion;
    request->queue = this;
    request->number = next_++;
    request->wr.wr_id = core::wr_id_of(request->handler);
    request->wr.sges = request->sges;
    ++since_signal_;
    if (request->must_signal || since_signal_ >= options_.signal_interval) {
      request->wr.flags = request->wr.flags | verbs::Send::Signaled;
      since_signal_ = 0;
      ++signalled_;
    }
    if (posted_.size() > before) {
      posted_.back()->wr.next = &request->wr;
    }
    posted_.push_back(std::move(request));
  }
  if (posted_.size() == before) {
    return {};
  }
  ++chains_;
  const core::SendWr* bad = nullptr;
  auto posted = core::post_send(qp_, posted_[before]->wr, &bad);
  if (!posted) {
    // What was refused gets no completion; what precedes it in the chain does.
    while (posted_.size() > before) {
      const bool was_first_refused = &posted_.back()->wr == bad || bad == nullptr;
      posted_.pop_back();
      if (was_first_refused && bad != nullptr) {
        break;
      }
    }
  }
  return posted;
}

Result<void> SendQueue::post_marker(std::function<void()> done) {
  auto marker = std::make_unique<SendRequest>();
  marker->handler.done = handle_completion;
  marker->queue = this;
  marker->number = next_++;
  marker->wr.opcode = verbs::WrOpcode::RdmaWrite;
  marker->wr.flags = verbs::Send::Signaled;
  marker->wr.wr_id = core::wr_id_of(marker->handler);
  marker->done = [done = std::move(done)](verbs::WcStatus /*status*/) { done(); };
  posted_.push_back(std::move(marker));
  auto posted = core::post_send(qp_, posted_.back()->wr);
  if (!posted) {
    posted_.pop_back();
  }
  return posted;
}

void SendQueue::handle_completion(core::Cq& /*cq*/, const core::Wc& wc) {
  // The handler is the request's first member.
  const auto* const request = static_cast<SendRequest*>(static_cast<void*>(wc.handler()));
  SendQueue& queue = *request->queue;
  queue.retire(request->number, wc.status);
}

void SendQueue::retire(std::uint64_t number, verbs::WcStatus status) {
  while (!posted_.empty() && posted_.front()->number <= number) {
    const std::unique_ptr<SendRequest> request = std::move(posted_.front());
    posted_.pop_front();
    // An unsignalled request before a completion has succeeded (IBTA vol 1 §10.8.5.1).
    const verbs::WcStatus own = request->number == number ? status : verbs::WcStatus::Success;
    if (request->done) {
      request->done(own);
    }
  }
  handle_end_(status);
}

}  // namespace weft::iser
