#include "iwpm/requests.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/assert.h"
#include "iwpm/planted_bug.h"

namespace weft::iwpm {

NlmsgRequest* RequestList::get_nlmsg_request(std::uint32_t sequence, std::uint8_t client,
                                             Instant deadline) {
  if (requests_.size() >= most_ || requests_.contains(sequence)) {
    return nullptr;
  }
  auto request = std::make_unique<NlmsgRequest>();
  request->sequence_ = sequence;
  request->client_ = client;
  request->deadline_ = deadline;
  return requests_.emplace(sequence, std::move(request)).first->second.get();
}

NlmsgRequest* RequestList::find_nlmsg_request(std::uint32_t echo_sequence) {
  const auto found = requests_.find(echo_sequence);
  if (found == requests_.end() || found->second->is_done_) {
    return nullptr;
  }
  ++found->second->references_;
  return found->second.get();
}

void RequestList::complete(NlmsgRequest& request, int error) {
  if (request.is_done_) {
    return;
  }
  request.is_done_ = true;
  request.error_ = error;
  if (request.is_listed_) {
    request.is_listed_ = false;
    put(request);
  }
}

void RequestList::put(NlmsgRequest& request) {
  WEFT_ASSERT(request.references_ != 0, "a reference is given back once");
  if (--request.references_ == 0) {
    free_nlmsg_request(request);
  }
}

std::optional<WaitResult> RequestList::wait_complete_req(NlmsgRequest& request, Instant now) {
  if (!request.is_done_ && now < request.deadline_) {
    return std::nullopt;
  }
  WaitResult result{.number = request.error_, .is_timeout = false};
  if (!request.is_done_) {
    result = {.number = -EINVAL, .is_timeout = true};
    request.is_done_ = true;
    // No callback will give it back any more.
    if (request.is_listed_ && !planted(PlantedBug::RequestLeakedAfterTimeout)) {
      request.is_listed_ = false;
      put(request);
    }
  }
  put(request);
  return result;
}

Instant RequestList::first_deadline() const {
  Instant first = Instant::never();
  for (const auto& [sequence, request] : requests_) {
    if (!request->is_done_) {
      first = std::min(first, request->deadline_);
    }
  }
  return first;
}

void RequestList::check_invariants() const {
  WEFT_ASSERT(requests_.size() <= most_, "there is a limit of requests");
  for (const auto& [sequence, request] : requests_) {
    WEFT_ASSERT(sequence == request->sequence_, "requests are found by their numbers");
    WEFT_ASSERT(request->references_ != 0, "the last reference frees a request");
    WEFT_ASSERT(request->is_done_ || request->is_listed_, "an open request can be found");
  }
}

void RequestList::free_nlmsg_request(const NlmsgRequest& request) {
  requests_.erase(request.sequence_);
}

}  // namespace weft::iwpm
