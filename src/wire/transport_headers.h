#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "base/result.h"
#include "wire/aeth.h"
#include "wire/atomic_ack_eth.h"
#include "wire/atomic_eth.h"
#include "wire/bth.h"
#include "wire/deth.h"
#include "wire/feth.h"
#include "wire/ieth.h"
#include "wire/immdt.h"
#include "wire/opcode.h"
#include "wire/rdeth.h"
#include "wire/reth.h"
#include "wire/xrceth.h"

namespace weft::wire {

/// The BTH and the extension headers of its opcode. Only those in
/// `opcode_info(bth.opcode)->headers` are meaningful; the others keep their defaults.
struct TransportHeaders {
  Bth bth;
  Deth deth;
  Xrceth xrceth;
  Feth feth;
  Reth reth;
  AtomicEth atomic_eth;
  Aeth aeth;
  AtomicAckEth atomic_ack_eth;
  ImmDt immdt;
  Ieth ieth;

  bool operator==(const TransportHeaders&) const = default;
};

/// Length of the BTH and the longest sequence of extension headers.
inline constexpr std::size_t kMaxTransportHeaderBytes = 12 + 4 + 28 + 8;

/// Length of the BTH and its extension headers, for an opcode in the table.
[[nodiscard]] std::size_t transport_header_bytes(const OpcodeInfo& info);

/// Packs BTH and extension headers in wire order; returns their length in bytes. The opcode must be
/// known and `out` large enough.
std::size_t pack(const TransportHeaders& headers, std::span<std::byte> out);

/// Unpacks the BTH and the extension headers of its opcode. Fails for a reserved opcode and for a
/// packet that is too short.
[[nodiscard]] Result<TransportHeaders> parse_transport_headers(std::span<const std::byte> in);

/// Calls visit(header) for the BTH and each extension header of the packet, in wire order.
template <class Visit>
void for_each_header(const TransportHeaders& headers, Visit visit) {
  const OpcodeInfo* info = opcode_info(headers.bth.opcode);
  visit(headers.bth);
  if (info == nullptr) {
    return;
  }
  const auto maybe = [&](ExtensionHeader extension, const auto& header) {
    if (info->headers.has(extension)) {
      visit(header);
    }
  };
  maybe(ExtensionHeader::Deth, headers.deth);
  maybe(ExtensionHeader::Xrceth, headers.xrceth);
  maybe(ExtensionHeader::Feth, headers.feth);
  maybe(ExtensionHeader::Reth, headers.reth);
  maybe(ExtensionHeader::AtomicEth, headers.atomic_eth);
  maybe(ExtensionHeader::Aeth, headers.aeth);
  maybe(ExtensionHeader::AtomicAckEth, headers.atomic_ack_eth);
  maybe(ExtensionHeader::Immediate, headers.immdt);
  maybe(ExtensionHeader::Ieth, headers.ieth);
}

}  // namespace weft::wire
