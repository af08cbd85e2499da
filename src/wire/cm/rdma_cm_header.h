#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

/// An IP address in RDMA-CM's private data: IPv4 in the last four octets, preceded by zeros.
using RdmaCmAddress = std::array<std::byte, 16>;

/// IP addressing information that RDMA-CM puts in front of the user's private data in a REQ or
/// SIDR_REQ (IBTA vol 1 annex A11).
struct RdmaCmHeader {
  static constexpr std::string_view kName = "RDMA-CM header";

  std::uint8_t major_version{};
  std::uint8_t minor_version{};
  std::uint8_t ip_version{};  ///< 4 or 6
  std::uint16_t source_port{};
  RdmaCmAddress source_address{};
  RdmaCmAddress destination_address{};
  bool operator==(const RdmaCmHeader&) const = default;

  // clang-format off
  using Wire = Layout<36,
      Field<"MajorVersion", 4, &RdmaCmHeader::major_version>,
      Field<"MinorVersion", 4, &RdmaCmHeader::minor_version>,
      Field<"IPVersion", 4, &RdmaCmHeader::ip_version>,
      Reserved<4>,
      Field<"SourcePort", 16, &RdmaCmHeader::source_port>,
      Octets<"SourceIPAddress", 16, &RdmaCmHeader::source_address>,
      Octets<"DestinationIPAddress", 16, &RdmaCmHeader::destination_address>>;
  // clang-format on
};

}  // namespace weft::wire
