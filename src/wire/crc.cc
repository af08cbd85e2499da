#include "wire/crc.h"

#include <isa-l/crc.h>

#include "base/wide_registers.h"

namespace weft::wire {
namespace {

/// x^16 + x^12 + x^3 + x + 1, least significant bit first.
constexpr std::uint16_t kReflectedPolynomial = 0xD008;

constexpr std::array<std::uint16_t, 256> kVcrcTable = [] {
  std::array<std::uint16_t, 256> table{};
  for (unsigned octet = 0; octet < table.size(); ++octet) {
    auto value = static_cast<std::uint16_t>(octet);
    for (int bit = 0; bit < 8; ++bit) {
      value = static_cast<std::uint16_t>((value & 1) != 0 ? value >> 1 ^ kReflectedPolynomial
                                                          : value >> 1);
    }
    table[octet] = value;
  }
  return table;
}();

}  // namespace

void Icrc::add(std::span<const std::byte> piece) {
  if (!piece.empty()) {
    const void* const data = piece.data();
    state_ = crc32_gzip_refl(state_, static_cast<const unsigned char*>(data), piece.size());
    leave_wide_registers();
  }
}

std::array<std::byte, 4> Icrc::bytes() const {
  return {static_cast<std::byte>(state_), static_cast<std::byte>(state_ >> 8),
          static_cast<std::byte>(state_ >> 16), static_cast<std::byte>(state_ >> 24)};
}

void Vcrc::add(std::span<const std::byte> piece) {
  for (const std::byte octet : piece) {
    state_ = static_cast<std::uint16_t>(
        state_ >> 8 ^ kVcrcTable[(state_ ^ std::to_integer<unsigned>(octet)) & 0xFF]);
  }
}

std::array<std::byte, 2> Vcrc::bytes() const {
  const auto complement = static_cast<std::uint16_t>(~state_);
  return {static_cast<std::byte>(complement), static_cast<std::byte>(complement >> 8)};
}

}  // namespace weft::wire
