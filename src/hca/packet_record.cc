#include "hca/packet_record.h"

#include <array>
#include <cstddef>
#include <cstring>

#include "base/assert.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

using internal::RecordShape;
using internal::shape;
using wire::ExtensionHeader;
using wire::Position;

/// Bits of the first and third word that must be zero: flags, SL, QPN and PSN are narrower than
/// their fields.
constexpr std::uint64_t kNeverInFirst = 0xF0F0'0000;
constexpr std::uint64_t kNeverInThird = 0xFF00'0000'FF00'0000;

/// For a single packet, the bits of the first word that may vary besides the two opcodes and the
/// count: flags other than the GRH's, SL, MTU.
constexpr std::uint64_t kFreeInSingle = 0xFFFF'0000'0F07'0000;
constexpr std::uint64_t kCountOfSingle = std::uint64_t{1} << 32;

[[nodiscard]] RecordShape shape_of(wire::Opcode opcode) {
  RecordShape shape{.info = wire::opcode_info(opcode)};
  if (shape.info == nullptr) {
    return shape;
  }
  const wire::ExtensionHeaders headers = shape.info->headers;
  using Extension = PacketHeader::Extension;
  const std::size_t bytes = headers.has(ExtensionHeader::Feth)        ? sizeof(Extension::flush)
                            : headers.has(ExtensionHeader::Reth)      ? sizeof(Extension::reth)
                            : headers.has(ExtensionHeader::AtomicEth) ? sizeof(wire::AtomicEth)
                            : headers.has(ExtensionHeader::Deth)      ? sizeof(wire::Deth)
                            : headers.has(ExtensionHeader::AtomicAckEth)
                                ? sizeof(Extension::response)
                            : headers.has(ExtensionHeader::Aeth) ? sizeof(wire::Aeth)
                                                                 : 0;
  shape.extension_bytes = static_cast<std::uint8_t>(bytes);
  if (headers.has(ExtensionHeader::Immediate) || headers.has(ExtensionHeader::Ieth)) {
    shape.tail_word_bytes = sizeof(PacketHeader::immediate_or_rkey);
  }
  if (headers.has(ExtensionHeader::Xrceth)) {
    shape.xrceth_bytes = sizeof(PacketHeader::xrc_srqn);
  }
  shape.has_feth = headers.has(ExtensionHeader::Feth);
  shape.has_deth = headers.has(ExtensionHeader::Deth);
  shape.has_aeth = headers.has(ExtensionHeader::Aeth);
  const bool is_whole = shape.info->position == Position::Only;
  const bool is_basic = shape.info->payload == wire::PayloadRule::UpToMtu ||
                        shape.info->payload == wire::PayloadRule::None;
  if (is_whole && is_basic && shape.xrceth_bytes == 0 && !shape.has_feth) {
    shape.single_bytes = static_cast<std::uint8_t>(internal::kFixedBytes + shape.extension_bytes +
                                                   shape.tail_word_bytes);
    shape.single_payload_mask = shape.info->payload == wire::PayloadRule::None ? 0 : 0xFFFF;
    shape.never_in_extension = shape.has_aeth || shape.has_deth ? std::uint64_t{0xFF} << 56 : 0;
  }
  return shape;
}

/// Checks values that are narrower on the wire than here, and that a GRH is one of InfiniBand.
[[nodiscard]] bool extensions_fit(const PacketHeader& header, const RecordShape& first,
                                  const RecordShape& last) {
  const auto fits = [](std::uint32_t value, unsigned width) { return value >> width == 0; };
  return (first.xrceth_bytes == 0 || fits(header.xrc_srqn, 24)) &&
         (!first.has_feth || (fits(header.extension.flush.feth.selectivity, 2) &&
                              fits(header.extension.flush.feth.placement, 4))) &&
         (!first.has_deth || fits(header.extension.deth.src_qp.value(), 24)) &&
         (!(first.has_aeth || last.has_aeth) ||
          fits(header.extension.response.aeth.msn.value(), 24)) &&
         (!header.has_grh ||
          (header.grh.ip_version == 6 && header.grh.next_header == wire::Grh{}.next_header &&
           fits(header.grh.flow_label, 20)));
}

[[nodiscard]] constexpr bool is_mtu(std::uint32_t bytes) {
  return (bytes & (bytes - 1)) == 0 && bytes >= 256 && bytes <= 4096;
}

/// The three fixed words of a record. Each is read once, since the owner of the ring may still
/// write it.
using FixedWords = std::array<std::uint64_t, 3>;
[[nodiscard]] inline FixedWords read_fixed(ByteSpan record, PacketHeader& header) {
  FixedWords fixed;
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    std::memcpy(&fixed[i], record.data() + i * internal::kWordBytes, internal::kWordBytes);
  }
  void* const start = &header;
  std::byte* const to = static_cast<std::byte*>(start);
  std::memcpy(to + internal::kFirstAt, &fixed[0], internal::kWordBytes);
  std::memcpy(to + internal::kThirdAt, &fixed[2], internal::kWordBytes);
  header.pkey = PKey{static_cast<std::uint16_t>(fixed[1])};
  header.slid = Lid{static_cast<std::uint16_t>(fixed[1] >> 16)};
  header.dlid = Lid{static_cast<std::uint16_t>(fixed[1] >> 32)};
  return fixed;
}

/// Fast path of read_any_record() for packets of the most frequent kind. False if the packet is of
/// another kind or breaks a rule.
[[nodiscard]] inline bool read_single(ByteSpan record, Packet& packet) {
  if (record.size() < internal::kFixedBytes) [[unlikely]] {
    return false;
  }
  PacketHeader& header = packet.header;
  const FixedWords fixed = read_fixed(record, header);
  const std::uint64_t opcode = fixed[0] & 0xFF;
  const RecordShape& shape = internal::kShapes[opcode];
  const std::size_t payload_bytes = record.size() - shape.single_bytes;
  const auto mtu = static_cast<std::uint32_t>(fixed[0] >> 48);
  if ((fixed[0] & ~kFreeInSingle) != (opcode | opcode << 8 | kCountOfSingle) ||
      (fixed[2] & kNeverInThird) != 0 || shape.single_bytes == 0 ||
      record.size() < shape.single_bytes || payload_bytes > (mtu & shape.single_payload_mask) ||
      !is_mtu(mtu)) [[unlikely]] {
    return false;
  }
  const std::byte* from = record.data() + internal::kFixedBytes;
  if (shape.extension_bytes != 0) {
    void* const extension = &header.extension;
    std::byte* const to = static_cast<std::byte*>(extension);
    std::uint64_t first = 0;  // every extension has a first word
    std::memcpy(&first, from, internal::kWordBytes);
    if ((first & shape.never_in_extension) != 0) [[unlikely]] {
      return false;
    }
    std::memcpy(to, &first, internal::kWordBytes);
    for (std::size_t at = internal::kWordBytes; at < shape.extension_bytes;
         at += internal::kWordBytes) {
      std::memcpy(to + at, from + at, internal::kWordBytes);
    }
    from += shape.extension_bytes;
  }
  if (shape.tail_word_bytes != 0) {
    void* const word = &header.immediate_or_rkey;
    copy_few(static_cast<std::byte*>(word), from, sizeof header.immediate_or_rkey);
  }
  packet.payload = record.subspan(shape.single_bytes);
  return true;
}

/// True if `first` and `last` can be the opcodes of one train.
[[nodiscard]] bool is_train(const wire::OpcodeInfo& first, const wire::OpcodeInfo& last) {
  const bool starts_train = first.position == Position::First || first.position == Position::Middle;
  const bool ends_train = last.position == Position::Middle || last.position == Position::Last;
  return first.transport == last.transport && first.operation == last.operation && starts_train &&
         ends_train;
}

[[nodiscard]] std::string_view check_payload(const wire::OpcodeInfo& last,
                                             const PacketHeader& header, std::size_t payload) {
  const std::size_t mtu = header.path_mtu_bytes;
  if (!is_mtu(header.path_mtu_bytes) || header.packet_count == 0) {
    return "an MTU that does not exist, or no packets";
  }
  const std::size_t before_last = mtu * (header.packet_count - 1U);
  if (payload < before_last || payload - before_last > mtu) {
    return "its bytes are no payload of that many packets";
  }
  const std::size_t in_last = payload - before_last;
  const bool fits = last.payload == wire::PayloadRule::None       ? in_last == 0
                    : last.payload == wire::PayloadRule::FullMtu  ? in_last == mtu
                    : last.payload == wire::PayloadRule::OneToMtu ? in_last != 0
                                                                  : true;
  return fits ? "" : "a payload that the opcode does not have";
}

}  // namespace

const std::array<RecordShape, 256> internal::kShapes = [] {
  std::array<RecordShape, 256> shapes;
  for (std::size_t opcode = 0; opcode < shapes.size(); ++opcode) {
    shapes[opcode] = shape_of(static_cast<wire::Opcode>(opcode));
  }
  return shapes;
}();

std::size_t encode_record_header(const PacketHeader& header, MutableByteSpan out) {
  const RecordHeader record{header};
  WEFT_DEBUG_ASSERT(out.size() >= record.bytes(), "the record's length was asked for");
  record.write(out.data());
  return record.bytes();
}

std::string_view read_record(ByteSpan record, Packet& packet) {
  return read_single(record, packet) ? "" : internal::read_any_record(record, packet);
}

std::string_view internal::read_any_record(ByteSpan record, Packet& packet) {
  if (record.size() < internal::kFixedBytes) {
    return "it is too short";
  }
  PacketHeader& header = packet.header;
  const FixedWords fixed = read_fixed(record, header);
  record = record.subspan(internal::kFixedBytes);
  const auto get = [&record](void* to, std::size_t bytes) {
    copy_few(static_cast<std::byte*>(to), record.data(), bytes);
    record = record.subspan(bytes);
  };
  const RecordShape& first = shape(header.opcode);
  const RecordShape& last = shape(header.last_opcode);
  if (first.info == nullptr || last.info == nullptr) {
    return "an opcode that does not exist";
  }
  if (header.packet_count == 1 ? &first != &last : !is_train(*first.info, *last.info)) {
    return "its first and last opcode are not those of one message";
  }
  if ((fixed[0] & kNeverInFirst) != 0 || (fixed[2] & kNeverInThird) != 0) {
    return "a field exceeds its width";
  }
  const std::uint32_t extension = internal::extension_bytes(first, last);
  if (record.size() < extension + last.tail_word_bytes + first.xrceth_bytes +
                          (header.has_grh ? sizeof header.grh : std::size_t{0})) {
    return "it lacks a header of its opcode";
  }
  if (extension != 0) {
    get(&header.extension, extension);
  }
  if (last.tail_word_bytes != 0) {
    get(&header.immediate_or_rkey, sizeof header.immediate_or_rkey);
  }
  if (first.xrceth_bytes != 0) {
    get(&header.xrc_srqn, sizeof header.xrc_srqn);
  }
  if (header.has_grh) {
    get(&header.grh, sizeof header.grh);
  }
  if (!extensions_fit(header, first, last)) {
    return "a field of a header exceeds its width";
  }
  packet.payload = record;
  return check_payload(*last.info, header, record.size());
}

Result<Packet> decode_record(ByteSpan record) {
  Packet packet;
  if (const std::string_view broken = read_record(record, packet); !broken.empty()) {
    return fail(ErrorCode::Io, "a record of {} bytes: {}", record.size(), broken);
  }
  return packet;
}

}  // namespace weft::hca
