#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/bytes.h"
#include "base/result.h"
#include "wire/print.h"

/// Dissects packets for output. Input is not trusted: malformed packets fail with the offending
/// field. A wrong CRC is reported in the result instead, since captures may contain packets that
/// receivers drop.
namespace weft::wire {

/// A received CRC and the correct one, as big-endian numbers of their bytes on the wire.
struct CrcComparison {
  std::uint32_t found{};
  std::uint32_t expected{};
  [[nodiscard]] bool is_right() const { return found == expected; }
};

struct Dissection {
  PrintedPacket packet;
  CrcComparison icrc;
  std::optional<CrcComparison> vcrc;  ///< InfiniBand only
};

/// One InfiniBand packet, LRH through VCRC (IBTA vol 1 §5.2).
[[nodiscard]] Result<Dissection> dissect_infiniband(ByteSpan bytes);

/// Dissects an Ethernet frame with a RoCE v2 packet (IBTA annex A17). Fails with NotSupported for
/// other protocols, and with Io for a malformed packet.
[[nodiscard]] Result<Dissection> dissect_ethernet(ByteSpan frame);

/// One Omni-Path packet of the format 16B (wire/opa/packet_16b.h): with the Ethernet header, or the
/// header of its MAD, if that is what it carries.
[[nodiscard]] Result<Dissection> dissect_opa_16b(ByteSpan bytes);

/// One line without newline; mentions wrong CRCs.
[[nodiscard]] std::string summary(const Dissection& dissection);

/// The summary, followed by each header with a line per field, payload and CRCs.
[[nodiscard]] std::string describe(const Dissection& dissection);

/// One JSON object on one line, with the results of the CRC checks.
[[nodiscard]] std::string to_json(const Dissection& dissection);

}  // namespace weft::wire
