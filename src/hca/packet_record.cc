#include "hca/packet_record.h"

#include <array>
#include <cassert>
#include <cstddef>

#include "wire/opcode.h"

namespace weft::hca {
namespace {

using internal::RecordShape;
using internal::shape;
using wire::ExtensionHeader;
using wire::Position;

/// Bits of the first and the third word that no header has: flags, SL, QPN and PSN are narrower
/// than their place.
constexpr std::uint64_t kNeverInFirst = 0xF0F0'0000;
constexpr std::uint64_t kNeverInThird = 0xFF00'0000'FF00'0000;

[[nodiscard]] RecordShape shape_of(wire::Opcode opcode) {
  RecordShape shape{.info = wire::opcode_info(opcode)};
  if (shape.info == nullptr) {
    return shape;
  }
  const wire::ExtensionHeaders headers = shape.info->headers;
  using Extension = PacketHeader::Extension;
  const std::size_t bytes = headers.has(ExtensionHeader::Reth)        ? sizeof(Extension::reth)
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
  shape.has_deth = headers.has(ExtensionHeader::Deth);
  shape.has_aeth = headers.has(ExtensionHeader::Aeth);
  return shape;
}

/// What has fewer bits on the wire than here, and what makes a GRH InfiniBand's.
[[nodiscard]] bool extensions_fit(const PacketHeader& header, const RecordShape& first,
                                  const RecordShape& last) {
  const auto fits = [](std::uint32_t value, unsigned width) { return value >> width == 0; };
  return (first.xrceth_bytes == 0 || fits(header.xrc_srqn, 24)) &&
         (!first.has_deth || fits(header.extension.deth.src_qp.value(), 24)) &&
         (!(first.has_aeth || last.has_aeth) ||
          fits(header.extension.response.aeth.msn.value(), 24)) &&
         (!header.has_grh ||
          (header.grh.ip_version == 6 && header.grh.next_header == wire::Grh{}.next_header &&
           fits(header.grh.flow_label, 20)));
}

/// Whether first and last opcode can be the ends of one train.
[[nodiscard]] bool is_train(const wire::OpcodeInfo& first, const wire::OpcodeInfo& last) {
  const bool starts_train = first.position == Position::First || first.position == Position::Middle;
  const bool ends_train = last.position == Position::Middle || last.position == Position::Last;
  return first.transport == last.transport && first.operation == last.operation && starts_train &&
         ends_train;
}

[[nodiscard]] std::string_view check_payload(const wire::OpcodeInfo& last,
                                             const PacketHeader& header, std::size_t payload) {
  const std::size_t mtu = header.path_mtu_bytes;
  if ((mtu & (mtu - 1)) != 0 || mtu < 256 || mtu > 4096 || header.packet_count == 0) {
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
  assert(out.size() >= record.bytes());
  record.write(out.data());
  return record.bytes();
}

std::string_view read_record(ByteSpan record, Packet& packet) {
  const auto get = [&record](void* to, std::size_t bytes) {
    copy_few(static_cast<std::byte*>(to), record.data(), bytes);
    record = record.subspan(bytes);
  };
  if (record.size() < internal::kFixedBytes) {
    return "it is too short";
  }
  PacketHeader& header = packet.header;
  std::array<std::uint64_t, 3> fixed;  // read once: the owner of the ring may still write it
  get(fixed.data(), sizeof fixed);
  void* const start = &header;
  std::byte* const to = static_cast<std::byte*>(start);
  copy_few(to + internal::kFirstAt, bytes_of(fixed[0]).data(), internal::kWordBytes);
  copy_few(to + internal::kThirdAt, bytes_of(fixed[2]).data(), internal::kWordBytes);
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
  header.pkey = PKey{static_cast<std::uint16_t>(fixed[1])};
  header.slid = Lid{static_cast<std::uint16_t>(fixed[1] >> 16)};
  header.dlid = Lid{static_cast<std::uint16_t>(fixed[1] >> 32)};
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
