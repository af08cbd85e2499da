#pragma once

// Addresses of logical units (SAM-5 §4.7): one level, peripheral device or flat space addressing.

#include <cstdint>
#include <optional>

#include "base/strong.h"

namespace weft::scsi {

/// The number of a logical unit, 0 to 16383.
using Lun = Ordered<struct LunTag, std::uint16_t>;

inline constexpr std::uint16_t kMaxLun = 0x3FFF;

/// The unit that the 8 octets of a LUN address, or nothing if they have another form: a bus number,
/// a second level, an extended or well-known unit.
[[nodiscard]] constexpr std::optional<Lun> parse_lun(std::uint64_t address) {
  const auto first = static_cast<std::uint16_t>(address >> 48);
  if ((address & 0xFFFF'FFFF'FFFF) != 0) {
    return std::nullopt;
  }
  switch (first >> 14) {
    case 0:  // peripheral device addressing: bus 0
      return first <= 0xFF ? std::optional{Lun{first}} : std::nullopt;
    case 1:  // flat space addressing
      return Lun{static_cast<std::uint16_t>(first & kMaxLun)};
    default:
      return std::nullopt;
  }
}

/// The 8 octets of a LUN: peripheral device addressing below 256, flat space from there on, which
/// is what initiators expect.
[[nodiscard]] constexpr std::uint64_t lun_address(Lun lun) {
  const std::uint64_t first = lun.value() < 256 ? lun.value() : 0x4000u | lun.value();
  return first << 48;
}

}  // namespace weft::scsi
