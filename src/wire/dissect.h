#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/print.h"

/// A packet's bytes taken apart for people and programs. Any bytes may come: what is malformed is
/// refused with the field that is wrong; a wrong CRC is a verdict and no refusal, for captures hold
/// packets that a receiver would drop.
namespace weft::wire {

/// A CRC as sent and as it should be, both as the number that its bytes on the wire make, first
/// byte highest.
struct CrcVerdict {
  std::uint32_t found{};
  std::uint32_t expected{};
  [[nodiscard]] bool is_right() const { return found == expected; }
};

struct Dissection {
  PrintedPacket packet;
  CrcVerdict icrc;
  std::optional<CrcVerdict> vcrc;  ///< InfiniBand only
};

/// One InfiniBand packet, LRH through VCRC (IBTA vol 1 §5.2).
[[nodiscard]] Result<Dissection> dissect_infiniband(ByteSpan bytes);

/// One Ethernet frame with a RoCE v2 packet (IBTA annex A17). A frame of another protocol is
/// refused as NotSupported, a malformed one as Io.
[[nodiscard]] Result<Dissection> dissect_ethernet(ByteSpan frame);

/// One line without its end; says so when a CRC is wrong.
[[nodiscard]] std::string summary(const Dissection& dissection);

/// The summary, then each header with a line for each field, payload and CRCs.
[[nodiscard]] std::string describe(const Dissection& dissection);

/// One JSON object in one line: that of the packet, with the verdicts on its CRCs.
[[nodiscard]] std::string to_json(const Dissection& dissection);

}  // namespace weft::wire
