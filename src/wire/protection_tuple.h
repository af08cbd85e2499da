#pragma once

// Protection information, T10-PI (SBC-3 §4.22): a tuple of 8 octets for each interval of data, on
// media, on wires, and in the memory of hosts. What its tags mean and which of them are checked is
// its users': a disk's format (src/scsi), or the attributes of a region (src/hca).

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/bytes.h"
#include "wire/layout.h"

namespace weft::wire {

/// A tuple (SBC-3 §4.22.3, Table 25).
struct ProtectionTuple {
  static constexpr std::string_view kName = "ProtectionTuple";

  std::uint16_t guard{};
  std::uint16_t application_tag{};
  std::uint32_t reference_tag{};
  bool operator==(const ProtectionTuple&) const = default;

  // clang-format off
  using Wire = Layout<8,
      Field<"Guard", 16, &ProtectionTuple::guard>,
      Field<"ApplicationTag", 16, &ProtectionTuple::application_tag>,
      Field<"ReferenceTag", 32, &ProtectionTuple::reference_tag>>;
  // clang-format on
};

/// Tags that say that nothing is checked (SBC-3 §4.22.2).
inline constexpr std::uint16_t kNoCheckApplicationTag = 0xFFFF;
inline constexpr std::uint32_t kNoCheckReferenceTag = 0xFFFF'FFFF;

/// CRC-16 with the polynomial 8BB7h (SBC-3 §4.22.4.2), continued from `seed`.
[[nodiscard]] std::uint16_t crc_t10_dif(ByteSpan data, std::uint16_t seed = 0);
/// The checksum of IP (RFC 1071), which hosts use in its place; `seed` is added.
[[nodiscard]] std::uint16_t ip_checksum(ByteSpan data, std::uint16_t seed = 0);

}  // namespace weft::wire
