#pragma once

#include <string>
#include <string_view>

namespace weft::testing {

/// The path of a file or folder below tests/golden of the source tree. The path stands in one
/// generated source, so that no test's own object depends on where the tree lies.
[[nodiscard]] std::string golden(std::string_view name);

}  // namespace weft::testing
