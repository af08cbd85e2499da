#pragma once

// Omni-Path's MADs in 16B packets, of L4 type FM (the kernel's hfi1 driver is the public source of
// the format): behind the link header two words with the QPs, then the MAD of 2048 octets. Input is
// not trusted. Value types.

#include <cstddef>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/identifiers.h"
#include "base/result.h"
#include "wire/layout.h"
#include "wire/opa/packet_16b.h"

namespace weft::wire {

/// The L4 header of management packets; big-endian, unlike the link header.
struct Opa16bManagementHeader {
  static constexpr std::string_view kName = "OPA 16B management";

  Qpn dest_qp{kQp1};
  Qpn source_qp{kQp1};
  bool operator==(const Opa16bManagementHeader&) const = default;

  // clang-format off
  using Wire = Layout<8,
      Reserved<8>,
      Field<"DestQP", 24, &Opa16bManagementHeader::dest_qp>,
      Reserved<8>,
      Field<"SrcQP", 24, &Opa16bManagementHeader::source_qp>>;
  // clang-format on
};

/// A received MAD. `mad` views the packet's octets.
struct OpaMadPacket {
  Opa16bHeader header{};
  Opa16bManagementHeader management{};
  ByteSpan mad{};  ///< kOpaMadBytes of them
  bool has_valid_icrc{};
};

/// The packet with this link header, whose length and L4 type are set here, and MAD of kOpaMadBytes
/// (asserted).
[[nodiscard]] std::vector<std::byte> to_opa_mad_packet(Opa16bHeader header,
                                                       const Opa16bManagementHeader& management,
                                                       ByteSpan mad);

/// Fails as parse_opa_16b(), and for another L4 type, or another length of the MAD.
[[nodiscard]] Result<OpaMadPacket> parse_opa_mad(ByteSpan packet);

}  // namespace weft::wire
