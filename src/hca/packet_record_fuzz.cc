// Decoding an arbitrary record must be safe. An accepted record must encode back to itself, and
// split into single packets whose wire forms parse to the same values.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "hca/packet_record.h"
#include "hca/packet_wire.h"
#include "hca/train.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

void require(bool holds) {
  if (!holds) {
    std::abort();
  }
}

void require_wire_form(const Packet& single) {
  static std::vector<std::byte> bytes;
  to_wire(single, bytes);
  const auto again = from_wire(bytes);
  require(again.has_value());
  const PacketHeader& before = single.header;
  const PacketHeader& after = again->header;
  require(after.opcode == before.opcode && after.dest_qp == before.dest_qp &&
          after.psn == before.psn && after.slid == before.slid && after.dlid == before.dlid &&
          after.pkey == before.pkey && after.sl == before.sl && after.has_grh == before.has_grh &&
          after.solicited == before.solicited && after.ack_request == before.ack_request);
  require(std::ranges::equal(again->payload, single.payload));
  const wire::ExtensionHeaders headers = wire::opcode_info(before.opcode)->headers;
  require(!headers.has(wire::ExtensionHeader::Xrceth) || after.xrc_srqn == before.xrc_srqn);
  require(!headers.has(wire::ExtensionHeader::Reth) ||
          after.extension.reth == before.extension.reth);
  require(!headers.has(wire::ExtensionHeader::Feth) ||
          after.extension.flush.feth == before.extension.flush.feth);
  require(!headers.has(wire::ExtensionHeader::AtomicEth) ||
          after.extension.atomic_eth == before.extension.atomic_eth);
  require(!headers.has(wire::ExtensionHeader::Deth) ||
          after.extension.deth == before.extension.deth);
  require(!headers.has(wire::ExtensionHeader::Aeth) ||
          after.extension.response.aeth == before.extension.response.aeth);
}

/// read_single's fast path must refuse what the general one refuses, and read the same values.
void require_one_meaning(ByteSpan record) {
  Packet quick;
  Packet general;
  const bool is_good = read_record(record, quick).empty();
  require(is_good == internal::read_any_record(record, general).empty());
  if (is_good) {
    std::array<std::byte, kMaxRecordHeaderBytes> header{};
    std::array<std::byte, kMaxRecordHeaderBytes> same{};
    require(encode_record_header(quick.header, header) ==
            encode_record_header(general.header, same));
    require(header == same);
    require(quick.payload.data() == general.payload.data() &&
            quick.payload.size() == general.payload.size());
  }
}

void use(ByteSpan record) {
  require_one_meaning(record);
  const auto packet = decode_record(record);
  if (!packet) {
    require(!packet.error().reason.empty());
    return;
  }
  std::array<std::byte, kMaxRecordHeaderBytes> header;
  const std::size_t header_bytes = encode_record_header(packet->header, header);
  require(header_bytes + packet->payload.size() == record.size());
  const auto again = decode_record(record);
  require(again && again->header.psn == packet->header.psn);
  for (std::uint32_t i = 0; i < packet->header.packet_count; ++i) {
    require_wire_form(single_of_train(*packet, i));
  }
}

}  // namespace
}  // namespace weft::hca

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  weft::hca::use(std::as_bytes(std::span{data, size}));
  return 0;
}
