#include "hca/packet_record.h"

#include <bit>
#include <cassert>
#include <cstring>

#include "wire/opcode.h"

namespace weft::hca {
namespace {

using wire::ExtensionHeader;
using wire::Position;

enum RecordFlag : std::uint8_t {
  kSolicited = 1,
  kAckRequest = 2,
  kMigrated = 4,
  kHasGrh = 8,
  kLoopback = 16
};
constexpr std::uint8_t kAllFlags = 31;

/// 24 bytes: three words that every packet has.
struct FixedPart {
  std::uint8_t opcode;
  std::uint8_t last_opcode;
  std::uint8_t flags;
  std::uint8_t sl;
  std::uint16_t packet_count;
  std::uint16_t path_mtu_bytes;
  std::uint16_t pkey;
  std::uint16_t slid;
  std::uint16_t dlid;
  std::uint16_t reserved;
  std::uint32_t dest_qp;
  std::uint32_t psn;
};
static_assert(sizeof(FixedPart) == 24);

class Writer {
 public:
  explicit Writer(std::span<std::byte> out) : out_(out) {}
  template <class T>
  void put(const T& value) {
    std::memcpy(out_.data() + at_, &value, sizeof value);
    at_ += sizeof value;
  }
  [[nodiscard]] std::size_t size() const { return at_; }

 private:
  std::span<std::byte> out_;
  std::size_t at_{};
};

class Reader {
 public:
  explicit Reader(ByteSpan in) : in_(in) {}
  template <class T>
  bool get(T& value) {
    if (in_.size() < sizeof value) {
      return false;
    }
    std::memcpy(&value, in_.data(), sizeof value);
    in_ = in_.subspan(sizeof value);
    return true;
  }
  [[nodiscard]] ByteSpan rest() const { return in_; }

 private:
  ByteSpan in_;
};

/// Whether first and last opcode can be the ends of one train.
[[nodiscard]] bool is_train(const wire::OpcodeInfo& first, const wire::OpcodeInfo& last) {
  const bool starts_train = first.position == Position::First || first.position == Position::Middle;
  const bool ends_train = last.position == Position::Middle || last.position == Position::Last;
  return first.transport == last.transport && first.operation == last.operation && starts_train &&
         ends_train;
}

Result<void> check_payload(const wire::OpcodeInfo& last, const PacketHeader& header,
                           std::size_t payload) {
  const std::size_t mtu = header.path_mtu_bytes;
  if (!std::has_single_bit(mtu) || mtu < 256 || mtu > 4096 || header.packet_count == 0) {
    return fail(ErrorCode::Io, "a record with MTU {} and {} packets", mtu, header.packet_count);
  }
  const std::size_t before_last = mtu * (header.packet_count - 1U);
  if (payload < before_last || payload - before_last > mtu) {
    return fail(ErrorCode::Io, "{} bytes are no payload of {} packets of {} bytes", payload,
                header.packet_count, mtu);
  }
  const std::size_t in_last = payload - before_last;
  const bool fits = last.payload == wire::PayloadRule::None       ? in_last == 0
                    : last.payload == wire::PayloadRule::FullMtu  ? in_last == mtu
                    : last.payload == wire::PayloadRule::OneToMtu ? in_last != 0
                                                                  : true;
  if (!fits) {
    return fail(ErrorCode::Io, "{} with {} bytes", last.name, in_last);
  }
  return {};
}

[[nodiscard]] bool read_extension(Reader& reader, const wire::OpcodeInfo& first, bool has_aeth,
                                  PacketHeader& header) {
  if (first.headers.has(ExtensionHeader::Reth)) {
    return reader.get(header.extension.reth);
  }
  if (first.headers.has(ExtensionHeader::AtomicEth)) {
    return reader.get(header.extension.atomic_eth);
  }
  if (first.headers.has(ExtensionHeader::Deth)) {
    return reader.get(header.extension.deth);
  }
  if (has_aeth) {
    header.extension.response = {};
    return reader.get(header.extension.response.aeth) &&
           (!first.headers.has(ExtensionHeader::AtomicAckEth) ||
            reader.get(header.extension.response.atomic_ack));
  }
  return true;
}

[[nodiscard]] bool has_aeth(const wire::OpcodeInfo& first, const wire::OpcodeInfo& last) {
  return first.headers.has(ExtensionHeader::Aeth) || last.headers.has(ExtensionHeader::Aeth);
}

[[nodiscard]] bool has_tail_word(const wire::OpcodeInfo& last) {
  return last.headers.has(ExtensionHeader::Immediate) || last.headers.has(ExtensionHeader::Ieth);
}

}  // namespace

std::size_t encode_record_header(const PacketHeader& header,
                                 std::span<std::byte, kMaxRecordHeaderBytes> out) {
  const wire::OpcodeInfo* first = wire::opcode_info(header.opcode);
  const wire::OpcodeInfo* last = wire::opcode_info(header.last_opcode);
  assert(first != nullptr && last != nullptr);
  const auto flag = [](bool set, std::uint8_t bit) { return set ? bit : std::uint8_t{0}; };
  Writer writer{out};
  writer.put(
      FixedPart{.opcode = static_cast<std::uint8_t>(header.opcode),
                .last_opcode = static_cast<std::uint8_t>(header.last_opcode),
                .flags = static_cast<std::uint8_t>(
                    flag(header.solicited, kSolicited) | flag(header.ack_request, kAckRequest) |
                    flag(header.migrated, kMigrated) | flag(header.has_grh, kHasGrh) |
                    flag(header.multicast_loopback, kLoopback)),
                .sl = header.sl.value(),
                .packet_count = header.packet_count,
                .path_mtu_bytes = header.path_mtu_bytes,
                .pkey = header.pkey.value(),
                .slid = static_cast<std::uint16_t>(header.slid.value()),
                .dlid = static_cast<std::uint16_t>(header.dlid.value()),
                .reserved = 0,
                .dest_qp = header.dest_qp.value(),
                .psn = header.psn.value()});
  if (first->headers.has(ExtensionHeader::Reth)) {
    writer.put(header.extension.reth);
  } else if (first->headers.has(ExtensionHeader::AtomicEth)) {
    writer.put(header.extension.atomic_eth);
  } else if (first->headers.has(ExtensionHeader::Deth)) {
    writer.put(header.extension.deth);
  } else if (has_aeth(*first, *last)) {
    writer.put(header.extension.response.aeth);
    if (first->headers.has(ExtensionHeader::AtomicAckEth)) {
      writer.put(header.extension.response.atomic_ack);
    }
  }
  if (has_tail_word(*last)) {
    writer.put(header.immediate_or_rkey);
  }
  if (header.has_grh) {
    writer.put(header.grh);
  }
  return writer.size();
}

Result<Packet> decode_record(ByteSpan record) {
  Reader reader{record};
  FixedPart fixed{};
  if (!reader.get(fixed)) {
    return fail(ErrorCode::Io, "a record of {} bytes is too short", record.size());
  }
  const wire::OpcodeInfo* first = wire::opcode_info(static_cast<wire::Opcode>(fixed.opcode));
  const wire::OpcodeInfo* last = wire::opcode_info(static_cast<wire::Opcode>(fixed.last_opcode));
  if (first == nullptr || last == nullptr) {
    return fail(ErrorCode::Io, "opcodes {:#x} and {:#x} are not both known", fixed.opcode,
                fixed.last_opcode);
  }
  if (fixed.packet_count == 1 ? first != last : !is_train(*first, *last)) {
    return fail(ErrorCode::Io, "{} to {} is no train of {} packets", first->name, last->name,
                fixed.packet_count);
  }
  if ((fixed.flags & ~kAllFlags) != 0 || fixed.sl > 15 || fixed.dest_qp > 0xFF'FFFF ||
      fixed.psn > 0xFF'FFFF) {
    return fail(ErrorCode::Io, "a field exceeds its width");
  }
  Packet packet;
  PacketHeader& header = packet.header;
  header.opcode = first->opcode;
  header.last_opcode = last->opcode;
  header.solicited = (fixed.flags & kSolicited) != 0;
  header.ack_request = (fixed.flags & kAckRequest) != 0;
  header.migrated = (fixed.flags & kMigrated) != 0;
  header.has_grh = (fixed.flags & kHasGrh) != 0;
  header.multicast_loopback = (fixed.flags & kLoopback) != 0;
  header.sl = ServiceLevel{fixed.sl};
  header.packet_count = fixed.packet_count;
  header.path_mtu_bytes = fixed.path_mtu_bytes;
  header.pkey = PKey{fixed.pkey};
  header.slid = Lid{fixed.slid};
  header.dlid = Lid{fixed.dlid};
  header.dest_qp = Qpn{fixed.dest_qp};
  header.psn = Psn{fixed.psn};
  if (!read_extension(reader, *first, has_aeth(*first, *last), header) ||
      (has_tail_word(*last) && !reader.get(header.immediate_or_rkey)) ||
      (header.has_grh && !reader.get(header.grh))) {
    return fail(ErrorCode::Io, "a record of {} bytes lacks a header of {}", record.size(),
                first->name);
  }
  packet.payload = reader.rest();
  if (auto fits = check_payload(*last, header, packet.payload.size()); !fits) {
    return std::unexpected(fits.error());
  }
  return packet;
}

}  // namespace weft::hca
