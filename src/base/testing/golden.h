#pragma once

#include <string>
#include <string_view>

namespace weft::testing {

/// The path of a file or folder below tests/golden of the source tree. It is compiled into one
/// generated source, so that object files of tests do not depend on the location of the tree.
[[nodiscard]] std::string golden(std::string_view name);

}  // namespace weft::testing
