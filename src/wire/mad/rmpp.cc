#include "wire/mad/rmpp.h"

namespace weft::wire {

std::string_view name_of(RmppType type) {
  switch (type) {
    case RmppType::None:
      return "none";
    case RmppType::Data:
      return "DATA";
    case RmppType::Ack:
      return "ACK";
    case RmppType::Stop:
      return "STOP";
    case RmppType::Abort:
      return "ABORT";
  }
  return {};
}

std::string_view name_of(RmppStatus status) {
  switch (status) {
    case RmppStatus::Normal:
      return "normal";
    case RmppStatus::ResourcesExhausted:
      return "resources exhausted";
    case RmppStatus::TotalTimeTooLong:
      return "total time too long";
    case RmppStatus::InconsistentLastAndPayloadLength:
      return "inconsistent Last and PayloadLength";
    case RmppStatus::InconsistentFirstAndSegmentNumber:
      return "inconsistent First and SegmentNumber";
    case RmppStatus::BadType:
      return "bad RMPPType";
    case RmppStatus::NewWindowLastTooSmall:
      return "NewWindowLast too small";
    case RmppStatus::SegmentNumberTooBig:
      return "SegmentNumber too big";
    case RmppStatus::IllegalStatus:
      return "illegal status";
    case RmppStatus::UnsupportedVersion:
      return "unsupported version";
    case RmppStatus::TooManyRetries:
      return "too many retries";
    case RmppStatus::Unspecified:
      return "unspecified";
  }
  constexpr unsigned kFirstOfClass = 128;
  return static_cast<unsigned>(status) >= kFirstOfClass ? "class specific" : "reserved";
}

}  // namespace weft::wire
