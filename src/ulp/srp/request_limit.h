#pragma once

// The target's account of a channel's credits (SRP r16a §5.3: REQUEST LIMIT DELTA). The limit may
// be changed at any time, which is how a busy target holds an initiator back. Pure; one thread.

#include <algorithm>
#include <cstdint>

#include "base/assert.h"
#include "ulp/srp/planted_bug.h"

namespace weft::srp {

class RequestLimit {
 public:
  /// The login grants all of `limit`.
  explicit RequestLimit(std::int32_t limit) : limit_(limit), available_(limit) {}

  /// A request has come. False: the initiator had no credit for it, and is not to be trusted.
  [[nodiscard]] bool take() {
    if (available_ <= 0) {
      return false;
    }
    --available_;
    ++outstanding_;
    return true;
  }

  /// A request has ended; grant() or a later one gives its credit back.
  void end() {
    WEFT_ASSERT(outstanding_ > 0, "a request ends once, and was taken");
    --outstanding_;
  }

  /// The REQUEST LIMIT DELTA of what is sent now.
  [[nodiscard]] std::int32_t grant() {
    const std::int32_t delta = owed() + (planted(PlantedBug::CreditGivenTwice) ? 1 : 0);
    available_ += delta;
    return delta;
  }

  /// A lower limit is reached by withholding credits, never by a negative delta.
  void set_limit(std::int32_t limit) { limit_ = limit; }

  /// True if credits are owed that no response is going to carry soon: nothing is being executed,
  /// or half of the limit has gathered (policy).
  [[nodiscard]] bool wants_cred_req() const {
    return owed() > 0 && (outstanding_ == 0 || owed() * 2 >= limit_);
  }

  [[nodiscard]] std::int32_t owed() const {
    return std::max<std::int32_t>(0, limit_ - outstanding_ - available_);
  }
  [[nodiscard]] std::int32_t limit() const { return limit_; }
  [[nodiscard]] std::int32_t available() const { return available_; }
  [[nodiscard]] std::int32_t outstanding() const { return outstanding_; }

 private:
  std::int32_t limit_;
  std::int32_t available_;       // what the initiator may send, if it has read all we sent
  std::int32_t outstanding_{0};  // requests that have come and not ended
};

}  // namespace weft::srp
