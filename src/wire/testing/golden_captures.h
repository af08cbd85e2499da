#pragma once

#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"

/// For tests: the captures in tests/golden/pcaps.
namespace weft::wire {

/// The captures' paths, in order.
[[nodiscard]] std::vector<std::string> golden_captures();

/// Calls visit(frame) for each record of a capture; false when it cannot be opened.
bool for_each_frame(const std::string& path, const std::function<void(ByteSpan)>& visit);

}  // namespace weft::wire
