#include "hca/packet_record.h"

#include <array>
#include <cassert>
#include <cstring>
#include <type_traits>

#include "wire/opcode.h"

namespace weft::hca {
namespace {

using wire::ExtensionHeader;
using wire::Position;

enum RecordFlag : std::uint8_t { kSolicited = 1, kAckRequest = 2, kMigrated = 4, kHasGrh = 8 };
constexpr std::uint8_t kAllFlags = 15;

/// What every record begins with: three words, made and taken apart in registers. Bit ranges are
/// offset and width.
struct FixedPart {
  std::uint64_t
      first;  // opcode 0:8, last opcode 8:8, flags 16:8, SL 24:8, packets 32:16, MTU 48:16
  std::uint64_t second;  // P_Key 0:16, SLID 16:16, DLID 32:16
  std::uint64_t third;   // destination QP 0:32, PSN 32:32
};
static_assert(sizeof(FixedPart) == 24);

template <class T>
[[nodiscard]] std::uint64_t at_bit(unsigned offset, T value) {
  return static_cast<std::uint64_t>(value) << offset;
}

template <unsigned kOffset, unsigned kWidth>
[[nodiscard]] auto bits(std::uint64_t word) {
  using Value = std::conditional_t<kWidth == 8, std::uint8_t,
                                   std::conditional_t<kWidth == 16, std::uint16_t, std::uint32_t>>;
  return static_cast<Value>(word >> kOffset);
}

/// What a record has besides its fixed part, by opcode.
struct RecordShape {
  const wire::OpcodeInfo* info{};  // null: a reserved opcode
  std::uint8_t extension_bytes{};  // of PacketHeader::extension, the first so many
  bool has_tail_word{};            // ImmDt or IETH
  bool has_deth{};
  bool has_aeth{};
};

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
  shape.has_tail_word =
      headers.has(ExtensionHeader::Immediate) || headers.has(ExtensionHeader::Ieth);
  shape.has_deth = headers.has(ExtensionHeader::Deth);
  shape.has_aeth = headers.has(ExtensionHeader::Aeth);
  return shape;
}

const std::array<RecordShape, 256> kShapes = [] {
  std::array<RecordShape, 256> shapes;
  for (std::size_t opcode = 0; opcode < shapes.size(); ++opcode) {
    shapes[opcode] = shape_of(static_cast<wire::Opcode>(opcode));
  }
  return shapes;
}();

[[nodiscard]] const RecordShape& shape(wire::Opcode opcode) {
  return kShapes[static_cast<std::uint8_t>(opcode)];
}

/// Of a train: a READ response has its AETH in the first packet or in the last; both say the same.
[[nodiscard]] std::uint8_t extension_bytes(const RecordShape& first, const RecordShape& last) {
  return last.has_aeth ? last.extension_bytes : first.extension_bytes;
}

/// What has fewer bits on the wire than here, and what makes a GRH InfiniBand's.
[[nodiscard]] bool extensions_fit(const PacketHeader& header, const RecordShape& first,
                                  const RecordShape& last) {
  const auto fits = [](std::uint32_t value, unsigned width) { return value >> width == 0; };
  return (!first.has_deth || fits(header.extension.deth.src_qp.value(), 24)) &&
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

RecordHeader::RecordHeader(const PacketHeader& header) : header_(header) {
  const RecordShape& first = shape(header.opcode);
  const RecordShape& last = shape(header.last_opcode);
  assert(first.info != nullptr && last.info != nullptr);
  extension_bytes_ = extension_bytes(first, last);
  has_tail_word_ = last.has_tail_word;
  bytes_ = static_cast<std::uint16_t>(sizeof(FixedPart) + extension_bytes_ +
                                      (has_tail_word_ ? sizeof header.immediate_or_rkey : 0) +
                                      (header.has_grh ? sizeof header.grh : 0));
}

void RecordHeader::write(std::byte* to) const {
  const PacketHeader& header = header_;
  const auto flag = [](bool set, std::uint8_t bit) { return set ? bit : std::uint8_t{0}; };
  const auto flags = static_cast<std::uint8_t>(
      flag(header.solicited, kSolicited) | flag(header.ack_request, kAckRequest) |
      flag(header.migrated, kMigrated) | flag(header.has_grh, kHasGrh));
  const FixedPart fixed{
      .first = at_bit(0, static_cast<std::uint8_t>(header.opcode)) |
               at_bit(8, static_cast<std::uint8_t>(header.last_opcode)) | at_bit(16, flags) |
               at_bit(24, header.sl.value()) | at_bit(32, header.packet_count) |
               at_bit(48, header.path_mtu_bytes),
      .second = at_bit(0, header.pkey.value()) |
                at_bit(16, static_cast<std::uint16_t>(header.slid.value())) |
                at_bit(32, static_cast<std::uint16_t>(header.dlid.value())),
      .third = at_bit(0, header.dest_qp.value()) | at_bit(32, header.psn.value())};
  const auto put = [&to](const void* from, std::size_t bytes) {
    copy_few(to, static_cast<const std::byte*>(from), bytes);
    to += bytes;
  };
  put(&fixed, sizeof fixed);
  put(&header.extension, extension_bytes_);
  if (has_tail_word_) {
    put(&header.immediate_or_rkey, sizeof header.immediate_or_rkey);
  }
  if (header.has_grh) {
    put(&header.grh, sizeof header.grh);
  }
}

std::size_t encode_record_header(const PacketHeader& header, MutableByteSpan out) {
  const RecordHeader record{header};
  assert(out.size() >= record.bytes());
  record.write(out.data());
  return record.bytes();
}

std::string_view read_record(ByteSpan record, Packet& packet) {
  const auto get = [&record](void* to, std::size_t bytes) {
    if (record.size() < bytes) {
      return false;
    }
    copy_few(static_cast<std::byte*>(to), record.data(), bytes);
    record = record.subspan(bytes);
    return true;
  };
  FixedPart fixed;
  if (!get(&fixed, sizeof fixed)) {
    return "it is too short";
  }
  const auto opcode = bits<0, 8>(fixed.first);
  const auto last_opcode = bits<8, 8>(fixed.first);
  const auto flags = bits<16, 8>(fixed.first);
  const auto packet_count = bits<32, 16>(fixed.first);
  const RecordShape& first = kShapes[opcode];
  const RecordShape& last = kShapes[last_opcode];
  if (first.info == nullptr || last.info == nullptr) {
    return "an opcode that does not exist";
  }
  if (packet_count == 1 ? &first != &last : !is_train(*first.info, *last.info)) {
    return "its first and last opcode are not those of one message";
  }
  if ((flags & ~kAllFlags) != 0 || bits<24, 8>(fixed.first) > 15 ||
      bits<0, 32>(fixed.third) > 0xFF'FFFF || bits<32, 32>(fixed.third) > 0xFF'FFFF) {
    return "a field exceeds its width";
  }
  PacketHeader& header = packet.header;
  header.opcode = static_cast<wire::Opcode>(opcode);
  header.last_opcode = static_cast<wire::Opcode>(last_opcode);
  header.solicited = (flags & kSolicited) != 0;
  header.ack_request = (flags & kAckRequest) != 0;
  header.migrated = (flags & kMigrated) != 0;
  header.has_grh = (flags & kHasGrh) != 0;
  header.sl = ServiceLevel{bits<24, 8>(fixed.first)};
  header.packet_count = packet_count;
  header.path_mtu_bytes = bits<48, 16>(fixed.first);
  header.pkey = PKey{bits<0, 16>(fixed.second)};
  header.slid = Lid{bits<16, 16>(fixed.second)};
  header.dlid = Lid{bits<32, 16>(fixed.second)};
  header.dest_qp = Qpn{bits<0, 32>(fixed.third)};
  header.psn = Psn{bits<32, 32>(fixed.third)};
  if (!get(&header.extension, extension_bytes(first, last)) ||
      (last.has_tail_word && !get(&header.immediate_or_rkey, sizeof header.immediate_or_rkey)) ||
      (header.has_grh && !get(&header.grh, sizeof header.grh))) {
    return "it lacks a header of its opcode";
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
