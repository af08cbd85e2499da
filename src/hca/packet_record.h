#pragma once

#include <cstddef>
#include <span>

#include "base/result.h"
#include "hca/packet.h"

namespace weft::hca {

/// Longest header in a ring record: fixed part, the longest extension, ImmDt, GRH.
inline constexpr std::size_t kMaxRecordHeaderBytes = 104;

/// How a packet or train lies in a shared-memory ring: a native-endian header of only those parts
/// that the opcodes have, then the payload. Small messages stay within one cache line (SEND of 8
/// bytes: 36; WRITE: 52).
///
/// Writes the header, returns its bytes; the caller appends the payload.
std::size_t encode_record_header(const PacketHeader& header,
                                 std::span<std::byte, kMaxRecordHeaderBytes> out);

/// Reads a record that another process wrote, who may lie: every value is copied once and checked
/// against every rule that the engines take for granted (known opcodes of one message, counts that
/// match the payload, an MTU that exists). The payload still lies in the ring.
[[nodiscard]] Result<Packet> decode_record(ByteSpan record);

}  // namespace weft::hca
