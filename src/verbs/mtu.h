#pragma once

#include <cstdint>
#include <optional>

namespace weft::verbs {

/// Path MTU, encoded as in PortInfo and PathRecord (IBTA vol 1 §14.2.5.6) and in the verbs API.
enum class Mtu : std::uint8_t { Mtu256 = 1, Mtu512 = 2, Mtu1024 = 3, Mtu2048 = 4, Mtu4096 = 5 };

/// The MTU with this code; none for a reserved code.
[[nodiscard]] constexpr std::optional<Mtu> mtu_of(std::uint32_t code) {
  return code >= static_cast<std::uint32_t>(Mtu::Mtu256) &&
                 code <= static_cast<std::uint32_t>(Mtu::Mtu4096)
             ? std::optional{static_cast<Mtu>(code)}
             : std::nullopt;
}

[[nodiscard]] constexpr unsigned log2_bytes(Mtu mtu) { return 7 + static_cast<unsigned>(mtu); }
[[nodiscard]] constexpr std::uint32_t bytes(Mtu mtu) { return 1U << log2_bytes(mtu); }

/// Number of packets of a message; an empty message has one. Shifts, because divisions are slow.
[[nodiscard]] constexpr std::uint32_t packets(std::uint64_t message_bytes, Mtu mtu) {
  return message_bytes == 0
             ? 1
             : static_cast<std::uint32_t>((message_bytes + bytes(mtu) - 1) >> log2_bytes(mtu));
}

}  // namespace weft::verbs
