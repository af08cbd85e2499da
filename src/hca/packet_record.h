#pragma once

#include <cstddef>
#include <cstdint>
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
class RecordHeader {
 public:
  /// Of `header`, which outlives this.
  explicit RecordHeader(const PacketHeader& header);

  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  /// Writes bytes() bytes; the caller appends the payload.
  void write(std::byte* to) const;

 private:
  const PacketHeader& header_;
  std::uint8_t extension_bytes_;
  bool has_tail_word_;
  std::uint16_t bytes_;
};

/// The same at once: writes the header to the front of `out`, returns its bytes.
std::size_t encode_record_header(const PacketHeader& header, MutableByteSpan out);

/// Reads a record that another process wrote, who may lie: every value is copied once and checked
/// against every rule that the engines take for granted (known opcodes of one message, counts that
/// match the payload, an MTU that exists). The payload still lies in the ring. Returns the rule
/// that is broken; empty: none is, and `packet` is whole.
[[nodiscard]] std::string_view read_record(ByteSpan record, Packet& packet);

[[nodiscard]] Result<Packet> decode_record(ByteSpan record);

}  // namespace weft::hca
