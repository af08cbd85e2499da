#include "mad/rmpp_receiver.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "base/assert.h"
#include "base/bytes.h"
#include "wire/mad/sa_mad.h"

namespace weft::mad {
namespace {

constexpr std::size_t kPayloadBytes = wire::kMadBytes - wire::kRmppHeaderEnd;

}  // namespace

RmppReceiver::RmppReceiver(wire::ManagementClass mgmt_class, const Options& options, Instant now)
    : options_(options),
      data_at_(data_offset(mgmt_class)),
      segment_bytes_(wire::kMadBytes - data_at_),
      total_deadline_(now + options.total_time) {
  WEFT_ASSERT(has_rmpp_header(mgmt_class) && options.window != 0,
              "the class has RMPP, and a window");
}

/// Validates a segment by itself, and against those received before (§13.6.2.1).
std::optional<wire::RmppStatus> RmppReceiver::fault_of(const wire::Rmpp& rmpp) const {
  if (rmpp.version != wire::kRmppVersion) {
    return wire::RmppStatus::UnsupportedVersion;
  }
  if (rmpp.type != wire::RmppType::Data) {
    return wire::RmppStatus::BadType;
  }
  if (rmpp.status != wire::RmppStatus::Normal) {
    return wire::RmppStatus::IllegalStatus;
  }
  if (rmpp.is_first != (rmpp.data1 == 1)) {
    return wire::RmppStatus::InconsistentFirstAndSegmentNumber;
  }
  const std::size_t class_bytes = data_at_ - wire::kRmppHeaderEnd;
  const bool is_length_of_last = rmpp.data2 >= class_bytes && rmpp.data2 <= kPayloadBytes;
  const bool is_one_announced =
      rmpp.is_first && !rmpp.is_last && rmpp.data2 != 0 && rmpp.data2 <= kPayloadBytes;
  const bool is_another_last =
      last_ && (rmpp.is_last ? rmpp.data1 != *last_ : rmpp.data1 >= *last_);
  const bool is_not_announced =
      announced_ != 0 && (rmpp.is_last ? rmpp.data1 != announced_ : rmpp.data1 >= announced_);
  if (is_one_announced || is_another_last || is_not_announced ||
      (rmpp.is_last && !is_length_of_last)) {
    return wire::RmppStatus::InconsistentLastAndPayloadLength;
  }
  return std::nullopt;
}

wire::Rmpp RmppReceiver::refuse(wire::RmppStatus status) {
  state_ = State::Failed;
  failure_ = status;
  data_ = {};
  early_.clear();
  return rmpp_reply(
      status == wire::RmppStatus::ResourcesExhausted ? wire::RmppType::Stop : wire::RmppType::Abort,
      status);
}

wire::Rmpp RmppReceiver::acknowledgement() const {
  wire::Rmpp ack = rmpp_reply(wire::RmppType::Ack, wire::RmppStatus::Normal);
  ack.data1 = in_order_;
  ack.data2 = window_last_;
  return ack;
}

void RmppReceiver::accept(const MadBytes& mad, const wire::Rmpp& rmpp) {
  if (rmpp.data1 == 1) {
    first_ = mad;
    if (!rmpp.is_last && rmpp.data2 != 0) {
      const std::size_t segments = (std::size_t{rmpp.data2} + kPayloadBytes - 1) / kPayloadBytes;
      announced_ = static_cast<std::uint32_t>(segments);
    }
  }
  if (rmpp.is_last) {
    last_ = rmpp.data1;
  }
  early_.emplace(rmpp.data1, mad);
  for (auto next = early_.find(in_order_ + 1); next != early_.end();
       next = early_.find(in_order_ + 1)) {
    const std::size_t class_bytes = data_at_ - wire::kRmppHeaderEnd;
    const bool is_last = last_ == next->first;
    const std::size_t count = is_last ? rmpp_of(next->second).data2 - class_bytes : segment_bytes_;
    const auto bytes = std::span{next->second}.subspan(data_at_, count);
    data_.insert(data_.end(), bytes.begin(), bytes.end());
    ++in_order_;
    early_.erase(next);
  }
}

std::optional<wire::Rmpp> RmppReceiver::handle_data(const MadBytes& mad) {
  const wire::Rmpp rmpp = rmpp_of(mad);
  if (state_ == State::Failed) {
    return rmpp_reply(failure_ == wire::RmppStatus::ResourcesExhausted ? wire::RmppType::Stop
                                                                       : wire::RmppType::Abort,
                      failure_);
  }
  if (state_ == State::Complete || (rmpp.data1 != 0 && rmpp.data1 <= in_order_)) {
    return acknowledgement();  // our ACK was lost
  }
  if (const auto fault = fault_of(rmpp)) {
    return refuse(*fault);
  }
  if (rmpp.data1 > window_last_) {
    return std::nullopt;  // beyond the window: treat as lost
  }
  if (early_.contains(rmpp.data1)) {
    return std::nullopt;  // duplicate of a segment behind a gap
  }
  if (std::size_t{rmpp.data1} * segment_bytes_ > options_.message_bytes + segment_bytes_ ||
      (rmpp.data1 == 1 && !rmpp.is_last && rmpp.data2 > options_.message_bytes)) {
    return refuse(wire::RmppStatus::ResourcesExhausted);
  }
  accept(mad, rmpp);
  if (last_ == in_order_) {
    state_ = State::Complete;
    window_last_ = std::max(window_last_, in_order_);
    return acknowledgement();
  }
  if (in_order_ == window_last_) {
    constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();
    window_last_ = in_order_ + std::min(options_.window, kMost - in_order_);
    return acknowledgement();
  }
  return std::nullopt;
}

wire::Rmpp RmppReceiver::stop() { return refuse(wire::RmppStatus::ResourcesExhausted); }

std::optional<wire::Rmpp> RmppReceiver::handle_timeout(Instant now) {
  if (state_ != State::Receiving || now < total_deadline_) {
    return std::nullopt;
  }
  return refuse(wire::RmppStatus::TotalTimeTooLong);
}

MadMessage RmppReceiver::take() {
  WEFT_ASSERT(state_ == State::Complete, "the message is there whole");
  MadMessage message{.mad = first_, .is_rmpp = true, .data = std::move(data_)};
  data_ = {};
  return message;
}

}  // namespace weft::mad
