#pragma once

// Requests that the responder answers without the application (docs/ARCHITECTURE.md, decision 4).

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/bytes.h"
#include "wire/opcode.h"

namespace weft::station {

/// By opcode. A table, since every packet asks.
extern const std::array<bool, 256> kOneSidedOpcodes;

/// True for RDMA WRITE without immediate data, RDMA READ, atomics, ATOMIC WRITE and FLUSH: no
/// receive is consumed, and nothing completes at the responder.
[[nodiscard]] inline bool is_one_sided(wire::Opcode opcode) {
  return kOneSidedOpcodes[static_cast<std::uint8_t>(opcode)];
}

/// The same for a record (hca/packet_record.h), whose first byte is the opcode. A record whose
/// first byte is a lie is refused later, when it is decoded.
[[nodiscard]] inline bool is_one_sided(ByteSpan record) {
  return !record.empty() &&
         is_one_sided(static_cast<wire::Opcode>(std::to_integer<std::uint8_t>(record[0])));
}

/// Whether a series of packets wakes a thread that naps while its application polls: if the last of
/// them is a one-sided request. Behind others comes what the application waits for at its CQ, as
/// the response behind the data of a SCSI command, and who takes that takes all before it.
class SeriesUrgency {
 public:
  void note(wire::Opcode opcode) { is_urgent_ = is_one_sided(opcode); }
  /// Of what was noted since the last call.
  [[nodiscard]] bool take() { return std::exchange(is_urgent_, false); }

 private:
  bool is_urgent_{};
};

}  // namespace weft::station
