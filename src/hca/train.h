#pragma once

#include <cstdint>

#include "hca/packet.h"
#include "wire/opcode.h"

namespace weft::hca {

/// Payload bytes of packet `index` of a train: one path MTU for all but the last
/// (docs/ARCHITECTURE.md, decision 2).
[[nodiscard]] inline std::size_t single_payload_bytes(const Packet& train, std::uint32_t index) {
  const std::size_t mtu = train.header.path_mtu_bytes;
  return index + 1 < train.header.packet_count ? mtu : train.payload.size() - mtu * index;
}

/// Packet `index` of a train with its opcode, PSN, flags and extensions as on the wire.
[[nodiscard]] inline Packet single_of_train(const Packet& train, std::uint32_t index) {
  Packet single = train;
  const bool is_last = index + 1 == train.header.packet_count;
  if (train.header.packet_count > 1 && index > 0) {
    const wire::OpcodeInfo* info = wire::opcode_info(train.header.opcode);
    single.header.opcode = is_last ? train.header.last_opcode
                                   : wire::make_opcode(info->transport, info->operation,
                                                       wire::Position::Middle, false, false);
  }
  single.header.last_opcode = single.header.opcode;
  single.header.packet_count = 1;
  single.header.psn = train.header.psn + index;
  single.header.solicited = is_last && train.header.solicited;
  single.header.ack_request = is_last && train.header.ack_request;
  single.payload = train.payload.subspan(std::size_t{train.header.path_mtu_bytes} * index,
                                         single_payload_bytes(train, index));
  return single;
}

}  // namespace weft::hca
