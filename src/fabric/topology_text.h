#pragma once

// What readers of topology files need of text, beside what toml++ does. Pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace weft::fabric::internal {

/// The known word that is most like the wrong one. `known` is not empty.
[[nodiscard]] std::string_view nearest(std::string_view wrong,
                                       std::span<const std::string_view> known);

/// A whole number, as 17 or 0x11, with nothing behind it.
[[nodiscard]] std::optional<std::uint64_t> read_integer(std::string_view text);

/// The line of the first non-ASCII octet outside strings and comments, which TOML 1.0 does not
/// allow. Checked before toml++ parses, which accepts some of them in bare keys and then aborts.
[[nodiscard]] std::optional<std::size_t> line_of_foreign_octet(std::string_view text);

}  // namespace weft::fabric::internal
