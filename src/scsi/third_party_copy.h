#pragma once

// What a unit can copy by itself (SPC-4 §5.17): limits that EXTENDED COPY keeps to, and RECEIVE
// COPY RESULTS and INQUIRY report.

#include <cstddef>
#include <cstdint>

#include "scsi/unit_state.h"

namespace weft::scsi {

inline constexpr std::size_t kMaxCopyTargets = 8;       ///< target descriptors; policy
inline constexpr std::size_t kMaxCopySegments = 64;     ///< segment descriptors; policy
inline constexpr std::size_t kMaxCopyListBytes = 4096;  ///< of descriptors; policy
inline constexpr std::uint8_t kBlockToBlock = 0x02;     ///< DESCRIPTOR TYPE CODE of a segment
inline constexpr std::uint8_t kIdentification = 0xE4;   ///< of a copy target: a designator

/// Vital product data page 8Fh (SPC-4 §7.8.17), without its header.
[[nodiscard]] ParameterData third_party_copy(const CommandContext& context);

}  // namespace weft::scsi
