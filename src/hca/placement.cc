#include "hca/placement.h"

#include "hca/wire_length.h"
#include "wire/opcode.h"

namespace weft::hca {
namespace {

using wire::Opcode;

struct MessageOpcodes {
  Opcode first;
  Opcode middle;
  Opcode last;
  Opcode only;
};
constexpr MessageOpcodes kWrite{.first = Opcode::RcRdmaWriteFirst,
                                .middle = Opcode::RcRdmaWriteMiddle,
                                .last = Opcode::RcRdmaWriteLast,
                                .only = Opcode::RcRdmaWriteOnly};
constexpr MessageOpcodes kReadResponse{.first = Opcode::RcRdmaReadResponseFirst,
                                       .middle = Opcode::RcRdmaReadResponseMiddle,
                                       .last = Opcode::RcRdmaReadResponseLast,
                                       .only = Opcode::RcRdmaReadResponseOnly};

/// The part of a message as the train that would carry it.
[[nodiscard]] PacketHeader train_of(const Placement& part, const MessageOpcodes& opcodes) {
  PacketHeader train = part.target.request;
  train.packet_count =
      static_cast<std::uint16_t>(verbs::packets(part.target.length, part.path_mtu));
  const bool is_one = train.packet_count == 1;
  train.opcode = part.is_first ? (part.is_last && is_one ? opcodes.only : opcodes.first)
                               : (part.is_last && is_one ? opcodes.last : opcodes.middle);
  train.last_opcode = is_one ? train.opcode : part.is_last ? opcodes.last : opcodes.middle;
  return train;
}

/// A request and an acknowledgement with the original value.
[[nodiscard]] PlacedTraffic traffic_of_atomic(PacketHeader single, const AtomicOperation& atomic) {
  single.opcode = single.last_opcode = atomic.compares ? Opcode::RcCompareSwap : Opcode::RcFetchAdd;
  const std::uint64_t request_words = packet_length_words(single, 0);
  single.opcode = single.last_opcode = Opcode::RcAtomicAcknowledge;
  return {.request_packets = 1,
          .request_words = request_words,
          .answer_packets = 1,
          .answer_words = packet_length_words(single, 0)};
}

}  // namespace

PlacedTraffic traffic_of(const Placement& placement) {
  PacketHeader single = placement.target.request;
  single.packet_count = 1;
  if (placement.atomic) {
    return traffic_of_atomic(single, *placement.atomic);
  }
  const std::uint32_t bytes = placement.target.length;
  if (placement.target.right == verbs::Access::RemoteRead) {
    const PacketHeader responses = train_of(placement, kReadResponse);
    single.opcode = single.last_opcode = Opcode::RcRdmaReadRequest;
    return {.request_packets = placement.is_first ? 1U : 0U,
            .request_words = placement.is_first ? packet_length_words(single, 0) : 0,
            .answer_packets = responses.packet_count,
            .answer_words = packet_length_words(responses, bytes)};
  }
  const PacketHeader requests = train_of(placement, kWrite);
  single.opcode = single.last_opcode = Opcode::RcAcknowledge;
  return {.request_packets = requests.packet_count,
          .request_words = packet_length_words(requests, bytes),
          .answer_packets = placement.is_last ? 1U : 0U,
          .answer_words = placement.is_last ? packet_length_words(single, 0) : 0};
}

}  // namespace weft::hca
