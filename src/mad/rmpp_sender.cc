#include "mad/rmpp_sender.h"

#include <algorithm>
#include <span>

#include "base/assert.h"
#include "base/bytes.h"
#include "wire/mad/sa_mad.h"

namespace weft::mad {

RmppSender::RmppSender(MadMessage message, const Options& options, Instant now)
    : message_(std::move(message)),
      options_(options),
      data_at_(data_offset(message_.header().mgmt_class)),
      segment_bytes_(wire::kMadBytes - data_at_),
      segments_(static_cast<std::uint32_t>(
          std::max<std::size_t>(1, (message_.data.size() + segment_bytes_ - 1) / segment_bytes_))),
      retries_left_(options.retries),
      response_deadline_(now + options.response_time),
      total_deadline_(now + options.total_time) {
  WEFT_ASSERT(has_rmpp_header(message_.header().mgmt_class) && options.window != 0,
              "the class has RMPP, and a window");
}

MadBytes RmppSender::segment(std::uint32_t number) const {
  MadBytes mad = message_.mad;
  std::fill(mad.begin() + static_cast<std::ptrdiff_t>(data_at_), mad.end(), std::byte{});
  const std::size_t first = std::size_t{number - 1} * segment_bytes_;
  const std::size_t count = std::min(segment_bytes_, message_.data.size() - first);
  copy_bytes(std::span{mad}.subspan(data_at_), ByteSpan{message_.data}.subspan(first, count));
  // PayloadLength counts from the end of the RMPP header, including the class header of each
  // segment.
  const std::size_t class_bytes = data_at_ - wire::kRmppHeaderEnd;
  std::size_t payload_length = 0;
  if (number == segments_) {
    payload_length = class_bytes + count;
  } else if (number == 1) {
    payload_length = segments_ * class_bytes + message_.data.size();
  }
  set_rmpp(mad, {.version = wire::kRmppVersion,
                 .type = wire::RmppType::Data,
                 .response_time = wire::kRmppNoResponseTime,
                 .is_last = number == segments_,
                 .is_first = number == 1,
                 .is_active = true,
                 .status = wire::RmppStatus::Normal,
                 .data1 = number,
                 .data2 = static_cast<std::uint32_t>(payload_length)});
  return mad;
}

std::optional<MadBytes> RmppSender::next_segment(Instant now) {
  const std::uint32_t last = std::min(segments_, window_last_);
  if (state_ != State::Sending || next_ > last) {
    return std::nullopt;
  }
  resent_ += next_ <= highest_sent_ ? 1 : 0;
  highest_sent_ = std::max(highest_sent_, next_);
  response_deadline_ = now + options_.response_time;
  return segment(next_++);
}

void RmppSender::handle_ack(const wire::Rmpp& ack, Instant now) {
  if (state_ != State::Sending) {
    return;
  }
  const std::uint32_t acked = ack.data1;
  const std::uint32_t window_last = ack.data2;
  if (window_last < acked) {
    return fail(wire::RmppStatus::NewWindowLastTooSmall);
  }
  if (acked > highest_sent_) {
    return fail(wire::RmppStatus::SegmentNumberTooBig);
  }
  if (acked < last_acked_) {
    return;  // outdated: a later ACK arrived first
  }
  if (acked > last_acked_) {
    retries_left_ = options_.retries;
    response_deadline_ = now + options_.response_time;
  }
  last_acked_ = acked;
  next_ = std::max(next_, acked + 1);
  // The window never shrinks: a smaller NewWindowLast is from an outdated ACK.
  const std::uint64_t allowed = std::uint64_t{last_acked_} + options_.window;
  window_last_ = std::max(
      window_last_, static_cast<std::uint32_t>(std::min<std::uint64_t>(window_last, allowed)));
  if (last_acked_ == segments_) {
    state_ = State::Acknowledged;
  }
}

void RmppSender::handle_timeout(Instant now) {
  if (state_ != State::Sending) {
    return;
  }
  if (now >= total_deadline_) {
    fail(wire::RmppStatus::TotalTimeTooLong);
  } else if (now >= response_deadline_) {
    if (retries_left_ == 0) {
      return fail(wire::RmppStatus::TooManyRetries);
    }
    --retries_left_;
    next_ = last_acked_ + 1;
    response_deadline_ = now + options_.response_time;
  }
}

Instant RmppSender::deadline() const {
  return state_ == State::Sending ? std::min(response_deadline_, total_deadline_)
                                  : Instant::never();
}

void RmppSender::fail(wire::RmppStatus status) {
  state_ = State::Failed;
  failure_ = status;
}

}  // namespace weft::mad
