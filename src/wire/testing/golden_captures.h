#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"

/// For tests: the captures in tests/golden.
namespace weft::wire {

/// The paths of the RoCE v2 captures, in order.
[[nodiscard]] std::vector<std::string> golden_captures();

/// The InfiniBand packets of the captures in tests/golden/management, in order: subnet management,
/// subnet administration and performance management.
[[nodiscard]] std::vector<std::vector<std::byte>> golden_management_packets();

/// Calls visit(frame) for each record of a capture; false when it cannot be opened.
bool for_each_frame(const std::string& path, const std::function<void(ByteSpan)>& visit);

}  // namespace weft::wire
