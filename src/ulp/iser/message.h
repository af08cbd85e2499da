#pragma once

// iSER messages as they come: foreign octets, checked whole before anybody looks at a part.

#include <cstdint>
#include <span>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "iscsi/pdu.h"
#include "wire/iser/header.h"

namespace weft::iser {

/// An iSCSI control-type PDU. The spans are parts of the message.
struct ControlMessage {
  wire::iser::ControlHeader header;
  iscsi::ReceivedPdu pdu;
};

using Message = std::variant<ControlMessage, wire::iser::Hello, wire::iser::HelloReply>;

/// Io, with the reason: no message, or one whose lengths do not fit. The data may be padded to a
/// multiple of 4 octets or not: implementations do both.
[[nodiscard]] Result<Message> parse_message(ByteSpan octets);

/// What a control-type PDU is behind its iSER header, without padding and digests: those are the
/// transport's (RFC 7145 §7.1).
[[nodiscard]] std::vector<std::byte> to_message(const wire::iser::ControlHeader& header,
                                                const iscsi::OutgoingPdu& pdu);

}  // namespace weft::iser
