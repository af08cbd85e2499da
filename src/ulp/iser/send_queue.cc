#include "ulp/iser/send_queue.h"

#include <algorithm>
#include <utility>

#include "base/assert.h"

namespace weft::iser {
namespace {

constexpr std::size_t kMostKept =
    16 * 1024;  // policy: octets of a request that waits for another use

}  // namespace

void SendRequest::reset() {
  wr = {};
  sges.clear();
  octets.clear();
  if (octets.capacity() > kMostKept) {
    octets.shrink_to_fit();
  }
  pdu.reset();
  descriptor.reset();
  must_signal = false;
  done = nullptr;
  checked = nullptr;
  entries = 1;
  first = nullptr;
  transfer.end();
}

SendQueue::SendQueue(core::Qp& qp, Options options, std::function<void(verbs::WcStatus)> handle_end)
    : qp_(qp), options_(options), handle_end_(std::move(handle_end)) {
  WEFT_ASSERT(options.signal_interval != 0 && options.signal_interval <= options.depth,
              "a full queue has a signalled request in it");
}

std::unique_ptr<SendRequest> SendQueue::take() {
  if (spare_.empty()) {
    return std::make_unique<SendRequest>();
  }
  std::unique_ptr<SendRequest> request = std::move(spare_.back());
  spare_.pop_back();
  return request;
}

void SendQueue::keep(std::unique_ptr<SendRequest> request) {
  if (spare_.size() < options_.depth) {
    request->reset();
    spare_.push_back(std::move(request));
  }
}

Result<void> SendQueue::post(SendRequests& requests, SendRequests* refused) {
  if (requests.empty()) {
    return {};
  }
  std::uint32_t entries = 0;
  for (const std::unique_ptr<SendRequest>& request : requests) {
    entries += request->entries;
  }
  if (entries > room()) {
    if (refused != nullptr) {
      *refused = std::move(requests);
    }
    requests.clear();
    return fail(ErrorCode::TryAgain, "{} work requests and room for {}: wait for completions",
                entries, room());
  }
  const std::size_t before = posted_.size();
  for (std::unique_ptr<SendRequest>& request : requests) {
    admit(std::move(request), &request == &requests.back());
  }
  requests.clear();
  const core::SendWr* next = nullptr;
  for (std::size_t i = posted_.size(); i-- > before;) {
    SendRequest& request = *posted_[i];
    request.wr.next = next;
    request.first = request.transfer.has_begun()
                        ? &request.transfer.work_requests(request.handler, next)
                        : &request.wr;
    next = request.first;
  }
  ++chains_;
  const core::SendWr* bad = nullptr;
  auto posted = core::post_send(qp_, *next, &bad);
  if (!posted) {
    take_back(before, bad, refused);
  }
  return posted;
}

void SendQueue::admit(std::unique_ptr<SendRequest> request, bool is_last) {
  request->handler.done = handle_completion;
  request->queue = this;
  request->number = next_++;
  request->wr.wr_id = core::wr_id_of(request->handler);
  request->wr.sges = request->sges;
  total_ += request->entries;
  entries_ += request->entries;
  since_signal_ += request->entries;
  const bool is_due = request->must_signal || since_signal_ >= options_.signal_interval;
  if (request->transfer.has_begun() ? is_last : is_due) {
    request->wr.flags = request->wr.flags | verbs::Send::Signaled;
    since_signal_ = 0;
    ++signalled_;
  }
  posted_.push_back(std::move(request));
}

// What was refused gets no completion; what precedes it in the chain does. A transfer of which a
// part was posted stays until the marker's.
void SendQueue::take_back(std::size_t before, const core::SendWr* bad, SendRequests* refused) {
  std::size_t kept = before;
  for (std::size_t i = before; i < posted_.size() && bad != nullptr; ++i) {
    const core::SendWr* const end = i + 1 < posted_.size() ? posted_[i + 1]->first : nullptr;
    const core::SendWr* wr = posted_[i]->first;
    while (wr != end && wr != bad) {
      wr = wr->next;
    }
    kept += posted_[i]->first != bad ? 1 : 0;
    if (wr == end) {
      continue;
    }
    if (posted_[i]->transfer.has_begun()) {
      posted_[i]->transfer.forget_unposted(bad);
    }
    break;
  }
  while (posted_.size() > kept) {
    SendRequest& last = *posted_.back();
    entries_ -= last.entries;
    if (last.transfer.has_begun()) {
      last.transfer.forget_unposted(last.first);
    }
    if (refused != nullptr) {
      refused->push_back(std::move(posted_.back()));
    }
    posted_.pop_back();
  }
  if (refused != nullptr) {
    std::ranges::reverse(*refused);
  }
}

Result<void> SendQueue::post_marker(std::function<void()> done) {
  auto marker = std::make_unique<SendRequest>();
  marker->handler.done = handle_completion;
  marker->queue = this;
  marker->number = next_++;
  marker->entries = 0;  // it has its own
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
    std::unique_ptr<SendRequest> request = std::move(posted_.front());
    posted_.pop_front();
    entries_ -= request->entries;
    // An unsignalled request before a completion has succeeded (IBTA vol 1 §10.8.5.1).
    const verbs::WcStatus own = request->number == number ? status : verbs::WcStatus::Success;
    if (own == verbs::WcStatus::Success && request->checked) {
      const auto found = request->transfer.protection_status();
      WEFT_ASSERT(found, "its region is one of integrity");
      request->checked(*found);
    }
    request->transfer.end();
    if (request->done) {
      request->done(own);
    }
    keep(std::move(request));
  }
  handle_end_(status);
}

}  // namespace weft::iser
