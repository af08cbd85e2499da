#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>

namespace weft::wire {

/// A GID or IPv6 address as RFC 5952 §4 writes it: lower case, the longest run of zero groups as
/// `::`.
[[nodiscard]] std::string address_text(std::span<const std::byte, 16> address);

/// An IPv4 address with dots.
[[nodiscard]] std::string address_text(std::span<const std::byte, 4> address);

/// Any bytes in hex, `separator` between them.
[[nodiscard]] std::string hex_text(std::span<const std::byte> octets, const char* separator = "");

}  // namespace weft::wire
