#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "hca/packet.h"
#include "wire/opcode.h"

namespace weft::hca {

/// Longest header in a ring record, whatever opcodes it names: fixed part, the longest extension,
/// ImmDt, XRCETH, GRH.
inline constexpr std::size_t kMaxRecordHeaderBytes = 108;

namespace internal {
/// What every record begins with: three words. The first and the third are bytes of a PacketHeader
/// as they lie there, from `opcode` and from `dest_qp` on:
///   opcode 0:8, last opcode 8:8, flags 16:5, SL 24:4, packets 32:16, MTU 48:16
///   P_Key 0:16, SLID 16:16, DLID 32:16
///   destination QP 0:24, PSN 32:24
inline constexpr std::size_t kWordBytes = 8;
inline constexpr std::size_t kFixedBytes = 3 * kWordBytes;
inline constexpr std::size_t kFirstAt = offsetof(PacketHeader, opcode);
inline constexpr std::size_t kThirdAt = offsetof(PacketHeader, dest_qp);
static_assert(kFirstAt == 0 && offsetof(PacketHeader, last_opcode) == 1 &&
              offsetof(PacketHeader, sl) == 3 && offsetof(PacketHeader, packet_count) == 4 &&
              offsetof(PacketHeader, path_mtu_bytes) == 6);
static_assert(offsetof(PacketHeader, psn) == kThirdAt + 4);
static_assert(std::endian::native == std::endian::little);
static_assert(sizeof(wire::Aeth) == 8 && offsetof(wire::Aeth, syndrome) == 0 &&
              offsetof(wire::Aeth, msn) == 4);

/// What a record has besides its fixed part, by opcode.
struct RecordShape {
  const wire::OpcodeInfo* info{};  // null: a reserved opcode
  std::uint8_t extension_bytes{};  // of PacketHeader::extension, the first so many
  std::uint8_t tail_word_bytes{};  // ImmDt or IETH
  std::uint8_t xrceth_bytes{};
  bool has_deth{};
  bool has_aeth{};
};
extern const std::array<RecordShape, 256> kShapes;

[[nodiscard]] inline const RecordShape& shape(wire::Opcode opcode) {
  return kShapes[static_cast<std::uint8_t>(opcode)];
}

/// Of a train: a READ response has its AETH in the first packet or in the last; both say the same.
[[nodiscard]] inline std::uint32_t extension_bytes(const RecordShape& first,
                                                   const RecordShape& last) {
  return std::max(first.extension_bytes, last.extension_bytes);
}
}  // namespace internal

/// How a packet or train lies in a shared-memory ring: a native-endian header of only those parts
/// that the opcodes have, then the payload. Small messages stay within one cache line (SEND of 8
/// bytes: 32; WRITE: 48).
class RecordHeader {
 public:
  /// Of `header`, which outlives this.
  explicit RecordHeader(const PacketHeader& header) : header_(header) {
    const internal::RecordShape& first = internal::shape(header.opcode);
    extension_bytes_ = first.extension_bytes;
    tail_word_bytes_ = first.tail_word_bytes;
    xrceth_bytes_ = first.xrceth_bytes;
    has_aeth_ = first.has_aeth;
    if (header.last_opcode != header.opcode) {
      const internal::RecordShape& last = internal::shape(header.last_opcode);
      extension_bytes_ = internal::extension_bytes(first, last);
      tail_word_bytes_ = last.tail_word_bytes;
      has_aeth_ = has_aeth_ || last.has_aeth;
    }
  }

  [[nodiscard]] std::size_t bytes() const {
    return internal::kFixedBytes + extension_bytes_ + tail_word_bytes_ + xrceth_bytes_ +
           (header_.has_grh ? sizeof header_.grh : 0);
  }

  /// Writes the record: bytes() bytes, then the concatenation of `gather`.
  [[gnu::always_inline]] void write(std::byte* to, std::span<const ByteSpan> gather) const {
    write(to);
    to += bytes();
    for (const ByteSpan piece : gather) {
      copy_few(to, piece.data(), piece.size());
      to += piece.size();
    }
  }

  /// Writes bytes() bytes; the caller appends the payload. Most fields were set just now, so none
  /// are loaded together (apart()).
  [[gnu::always_inline]] void write(std::byte* to) const {
    const auto put = [&to](const void* from, std::size_t bytes) {
      copy_few(to, static_cast<const std::byte*>(from), bytes);
      to += bytes;
    };
    const std::array<std::uint64_t, 3> fixed{first_word(), second_word(), third_word()};
    for (const std::uint64_t word : fixed) {
      put(&word, sizeof word);
    }
    if (has_aeth_) {
      const std::uint64_t aeth = aeth_word();
      put(&aeth, sizeof aeth);
      put(&header_.extension.response.atomic_ack, extension_bytes_ - sizeof aeth);
    } else {
      const std::byte* const extension = bytes_of(header_.extension).data();
      for (std::uint32_t at = 0; at < extension_bytes_; at += sizeof(std::uint32_t)) {
        std::uint32_t field = 0;
        std::memcpy(&field, extension + at, sizeof field);
        field = apart(field);
        put(&field, sizeof field);
      }
    }
    if (tail_word_bytes_ != 0) {
      put(&header_.immediate_or_rkey, sizeof header_.immediate_or_rkey);
    }
    if (xrceth_bytes_ != 0) {
      put(&header_.xrc_srqn, sizeof header_.xrc_srqn);
    }
    if (header_.has_grh) {
      put(&header_.grh, sizeof header_.grh);
    }
  }

 private:
  [[nodiscard]] std::uint64_t first_word() const {
    const unsigned flags = (header_.solicited ? 1U : 0U) | (header_.ack_request ? 2U : 0U) |
                           (header_.migrated ? 4U : 0U) | (header_.has_grh ? 8U : 0U);
    return std::uint64_t{apart(static_cast<std::uint8_t>(header_.opcode))} |
           std::uint64_t{apart(static_cast<std::uint8_t>(header_.last_opcode))} << 8 |
           std::uint64_t{flags} << 16 | std::uint64_t{apart(header_.sl.value())} << 24 |
           std::uint64_t{apart(header_.packet_count)} << 32 |
           std::uint64_t{apart(header_.path_mtu_bytes)} << 48;
  }
  [[nodiscard]] std::uint64_t second_word() const {
    return std::uint64_t{header_.pkey.value()} |
           std::uint64_t{header_.slid.value() & 0xFFFF} << 16 |
           std::uint64_t{header_.dlid.value() & 0xFFFF} << 32;
  }
  [[nodiscard]] std::uint64_t third_word() const {
    return std::uint64_t{apart(header_.dest_qp.value())} | std::uint64_t{apart(header_.psn.value())}
                                                               << 32;
  }
  [[nodiscard]] std::uint64_t aeth_word() const {
    const wire::Aeth& aeth = header_.extension.response.aeth;
    return std::uint64_t{apart(aeth.syndrome.value())} | std::uint64_t{apart(aeth.msn.value())}
                                                             << 32;
  }

  const PacketHeader& header_;
  std::uint32_t extension_bytes_{};
  std::uint32_t tail_word_bytes_{};
  std::uint32_t xrceth_bytes_{};
  bool has_aeth_{};
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
