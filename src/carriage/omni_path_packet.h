#pragma once

// A 16B packet under way on Omni-Path links: its octets, and what links and ports look at. Values;
// no threads.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/identifiers.h"
#include "base/keys.h"
#include "base/result.h"
#include "fabric/link_address.h"
#include "wire/opcode.h"

namespace weft::carriage {

/// The longest packet that links carry: Omni-Path's largest MTU, and 128 octets for all headers, as
/// its adapters size their buffers.
inline constexpr std::size_t kMaxOmniPathPacketBytes = 10'240 + 128;

/// No opcode of InfiniBand's that anybody sends: of what rules of faults name, 16B packets have
/// none (IBTA vol 1 Table 38: 0xC0 to 0xFF are the manufacturers').
inline constexpr wire::Opcode kNoOpcode{0xFF};

struct OmniPathPacket {
  fabric::ExtendedLidPair address;
  PKey pkey{};
  std::uint8_t service_channel{};
  bool is_management{};             // it carries a MAD
  std::vector<std::byte> octets{};  // link header to tail

  /// That of VL15, on which no data may go.
  static constexpr std::uint8_t kManagementChannel = 15;
};

/// Fails as wire::parse_opa_16b() does.
[[nodiscard]] Result<OmniPathPacket> to_omni_path_packet(std::vector<std::byte> octets);

}  // namespace weft::carriage
