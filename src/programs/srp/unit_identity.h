#pragma once

// Whether two paths lead to one logical unit: its designators. Pure.

#include <cstddef>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace weft::programs::srp {

/// Of a device identification page (SPC-4 §7.8.6): the designators of the logical unit itself, one
/// after the other with their headers, without those of ports and targets, which differ between
/// paths. NotSupported: it has none, or the page is cut off.
[[nodiscard]] Result<std::vector<std::byte>> unit_designators(ByteSpan page);

}  // namespace weft::programs::srp
