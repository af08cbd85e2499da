#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace weft::wire {

/// Formats a GID or IPv6 address as in RFC 5952 §4: lower case, the longest run of zero groups as
/// `::`.
[[nodiscard]] std::string address_text(std::span<const std::byte, 16> address);

/// Formats an IPv4 address in dotted decimal.
[[nodiscard]] std::string address_text(std::span<const std::byte, 4> address);

/// Formats bytes in hex, with `separator` between them.
[[nodiscard]] std::string hex_text(std::span<const std::byte> octets, const char* separator = "");

}  // namespace weft::wire
