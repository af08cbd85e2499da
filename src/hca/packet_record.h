#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "hca/packet.h"

namespace weft::hca {

/// Longest header in a ring record: fixed part, the longest extension, ImmDt, GRH.
inline constexpr std::size_t kMaxRecordHeaderBytes = 104;

/// How a packet or train lies in a shared-memory ring: a native-endian header of only those parts
/// that the opcodes have, then the payload. Small messages stay within one cache line (SEND of 8
/// bytes: 36; WRITE: 52).
[[nodiscard]] std::size_t record_header_bytes(const PacketHeader& header);

/// Writes the header to the first record_header_bytes() of `out`, returns how many those are; the
/// caller appends the payload.
std::size_t encode_record_header(const PacketHeader& header, MutableByteSpan out);

/// Reads a record that another process wrote, who may lie: every value is copied once and checked
/// against every rule that the engines take for granted (known opcodes of one message, counts that
/// match the payload, an MTU that exists). The payload still lies in the ring. Returns the rule
/// that is broken; empty: none is, and `packet` is whole.
[[nodiscard]] std::string_view read_record(ByteSpan record, Packet& packet);

[[nodiscard]] Result<Packet> decode_record(ByteSpan record);

}  // namespace weft::hca
