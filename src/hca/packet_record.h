#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "base/result.h"
#include "hca/packet.h"
#include "wire/opcode.h"

namespace weft::hca {

/// Upper bound of a record's header in bytes, for any opcode: fixed part, longest extension, ImmDt,
/// XRCETH, GRH.
inline constexpr std::size_t kMaxRecordHeaderBytes = 108;

namespace internal {
/// Every record starts with three words. The first and third are copied from a PacketHeader,
/// starting at `opcode` and at `dest_qp`. Bit offset and width:
///   opcode 0:8, last opcode 8:8, flags 16:5, SL 24:4, packets 32:16, MTU 48:16
///   P_Key 0:16, SLID 16:16, DLID 32:16, SL 48:4 (informative: receivers use the first word's)
///   destination QP 0:24, PSN 32:24
inline constexpr std::size_t kWordBytes = 8;
inline constexpr std::size_t kFixedBytes = 3 * kWordBytes;
inline constexpr std::size_t kFirstAt = offsetof(PacketHeader, opcode);
inline constexpr std::size_t kThirdAt = offsetof(PacketHeader, dest_qp);
static_assert(kFirstAt == 0 && offsetof(PacketHeader, last_opcode) == 1 &&
              offsetof(PacketHeader, sl) == 3 && offsetof(PacketHeader, packet_count) == 4 &&
              offsetof(PacketHeader, path_mtu_bytes) == 6);
static_assert(offsetof(PacketHeader, psn) == kThirdAt + 4);

/// Which parts a record has besides its fixed words, for one opcode.
struct RecordShape {
  const wire::OpcodeInfo* info{};  // null for a reserved opcode
  std::uint8_t extension_bytes{};  // how much of PacketHeader::extension is present
  std::uint8_t tail_word_bytes{};  // ImmDt or IETH
  std::uint8_t xrceth_bytes{};
  bool has_feth{};
  bool has_deth{};
  bool has_aeth{};
  // For a packet that is a complete message or an acknowledgement, without a GRH:
  std::uint8_t single_bytes{};          // of its header; 0 if the opcode is no such packet
  std::uint16_t single_payload_mask{};  // payload lengths allowed, as a mask of the MTU
  std::uint64_t never_in_extension{};   // bits of the extension's first word that must be zero
};
extern const std::array<RecordShape, 256> kShapes;

[[nodiscard]] inline const RecordShape& shape(wire::Opcode opcode) {
  return kShapes[static_cast<std::uint8_t>(opcode)];
}

/// Extension bytes of a train. A train of READ responses has an AETH in its first or its last
/// packet, with the same content.
[[nodiscard]] inline std::uint32_t extension_bytes(const RecordShape& first,
                                                   const RecordShape& last) {
  return std::max(first.extension_bytes, last.extension_bytes);
}
}  // namespace internal

/// SLID, DLID and SL in one word: packets with the same key take the same route and share its
/// counters.
[[nodiscard]] constexpr std::uint64_t route_key_of(const SinglePacket& packet) {
  return packet.addresses >> 16;
}
[[nodiscard]] constexpr std::uint64_t route_key_of(Lid slid, Lid dlid, ServiceLevel sl) {
  return std::uint64_t{slid.value() & 0xFFFF} | std::uint64_t{dlid.value() & 0xFFFF} << 16 |
         std::uint64_t{sl.value()} << 32;
}
[[nodiscard]] constexpr std::uint64_t route_key_of(const PacketHeader& header) {
  return route_key_of(header.slid, header.dlid, header.sl);
}

/// Serialises a packet or train for a shared-memory ring: a native-endian header with only the
/// parts that the opcodes have, then the payload. Short messages fit in one cache line (a SEND of 8
/// bytes takes 32 bytes, a WRITE 48).
class RecordHeader {
 public:
  /// `header` must outlive this object.
  explicit RecordHeader(const PacketHeader& header)
      : header_(header),
        extension_bytes_(internal::extension_bytes(internal::shape(header.opcode),
                                                   internal::shape(header.last_opcode))),
        tail_word_bytes_(internal::shape(header.last_opcode).tail_word_bytes),
        xrceth_bytes_(internal::shape(header.opcode).xrceth_bytes) {}

  /// Length of the header.
  [[nodiscard]] std::size_t bytes() const {
    return internal::kFixedBytes + extension_bytes_ + tail_word_bytes_ + xrceth_bytes_ +
           (header_.has_grh ? sizeof header_.grh : 0);
  }

  /// Writes the record: a header of bytes() bytes, then the concatenation of `gather`.
  void write(std::byte* to, std::span<const ByteSpan> gather) const {
    write(to);
    to += bytes();
    for (const ByteSpan piece : gather) {
      copy_few(to, piece.data(), piece.size());
      to += piece.size();
    }
  }

  /// Writes the header only, bytes() bytes; the caller appends the payload.
  void write(std::byte* to) const {
    const auto put = [&to](const void* from, std::size_t bytes) {
      copy_few(to, static_cast<const std::byte*>(from), bytes);
      to += bytes;
    };
    put(bytes_of(header_).data() + internal::kFirstAt, internal::kWordBytes);
    const std::uint64_t second = std::uint64_t{header_.pkey.value()} | route_key_of(header_) << 16;
    put(&second, sizeof second);
    put(bytes_of(header_).data() + internal::kThirdAt, internal::kWordBytes);
    if (extension_bytes_ != 0) {
      put(&header_.extension, extension_bytes_);
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
  const PacketHeader& header_;
  const std::uint32_t extension_bytes_;
  const std::uint32_t tail_word_bytes_;
  const std::uint32_t xrceth_bytes_;
};

/// SinglePacket's words have the layout of the PacketHeader members that they stand for.
static_assert(sizeof(wire::Reth) == 16 && offsetof(wire::Reth, rkey) == 8 &&
              offsetof(wire::Reth, dma_length) == 12);
static_assert(sizeof(wire::Aeth) == 8 && offsetof(wire::Aeth, msn) == 4);
inline constexpr std::uint64_t kSolicitedBit = 1U << 16;
inline constexpr std::uint64_t kAckRequestBit = 1U << 17;

[[nodiscard]] constexpr wire::Opcode opcode_of(const SinglePacket& packet) {
  return static_cast<wire::Opcode>(packet.first & 0xFF);
}

/// Length of the whole record.
[[nodiscard]] inline std::size_t record_bytes(const SinglePacket& packet) {
  return internal::kFixedBytes + packet.extension_bytes +
         (packet.has_immediate ? sizeof packet.immediate : 0) + packet.payload.size();
}

/// Adds the extension of an RDMA WRITE (RETH).
constexpr void set_extension(SinglePacket& packet, const wire::Reth& reth) {
  packet.extension_low = reth.virtual_address;
  packet.extension_high = reth.rkey.value() | std::uint64_t{reth.dma_length} << 32;
  packet.extension_bytes = sizeof reth;
}
/// Adds the extension of an acknowledgement (AETH).
constexpr void set_extension(SinglePacket& packet, const wire::Aeth& aeth) {
  packet.extension_low = aeth.syndrome.value() | std::uint64_t{aeth.msn.value()} << 32;
  packet.extension_bytes = sizeof aeth;
}

/// Writes the whole record, record_bytes() bytes, identical to what RecordHeader writes.
[[gnu::always_inline]] inline void write_record(const SinglePacket& packet, std::byte* to) {
  const auto put = [&to](const auto& word) {
    copy_few(to, bytes_of(word).data(), sizeof word);
    to += sizeof word;
  };
  put(packet.first);
  put(packet.addresses);
  put(packet.third);
  if (packet.extension_bytes != 0) {
    put(packet.extension_low);
    if (packet.extension_bytes != sizeof packet.extension_low) {
      put(packet.extension_high);
    }
  }
  if (packet.has_immediate) {
    put(packet.immediate);
  }
  copy_few(to, packet.payload.data(), packet.payload.size());
}

/// Writes the header of a record to the front of `out` and returns its length in bytes.
std::size_t encode_record_header(const PacketHeader& header, MutableByteSpan out);

/// Reads a record that another process wrote and that may be hostile: copies each value once and
/// checks every rule that the engines rely on (known opcodes of one message, a packet count that
/// matches the payload, a valid MTU). The payload stays in the ring. Returns the broken rule; if
/// empty, `packet` is complete.
[[nodiscard]] std::string_view read_record(ByteSpan record, Packet& packet);

namespace internal {
/// The same without the fast path that read_record() has for packets of the most frequent kind.
[[nodiscard]] std::string_view read_any_record(ByteSpan record, Packet& packet);
}  // namespace internal

/// The same with the broken rule as an error.
[[nodiscard]] Result<Packet> decode_record(ByteSpan record);

}  // namespace weft::hca
