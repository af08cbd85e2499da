#pragma once

// Structures that one end writes into the other's memory by RDMA: the fields of a wire::Layout, one
// after another, each in the writer's byte order. Both ends refuse a peer of another order when
// they connect (stream_protocol.h). Pure functions.

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <span>
#include <string_view>

#include "wire/layout.h"

namespace weft::rsockets {

namespace internal {
template <class T>
constexpr void swap_fields(std::span<std::byte, wire::kSizeOf<T>> octets) {
  if constexpr (std::endian::native == std::endian::little) {
    wire::describe<T>([&](std::string_view /*name*/, std::size_t at_bits, std::size_t bits) {
      std::ranges::reverse(octets.subspan(at_bits / 8, bits / 8));
    });
  }
}
}  // namespace internal

template <wire::WireType T>
[[nodiscard]] constexpr std::array<std::byte, wire::kSizeOf<T>> pack_native(const T& value) {
  auto octets = wire::pack(value);
  internal::swap_fields<T>(octets);
  return octets;
}

template <wire::WireType T>
[[nodiscard]] constexpr T unpack_native(std::span<const std::byte, wire::kSizeOf<T>> octets) {
  std::array<std::byte, wire::kSizeOf<T>> copy{};
  std::ranges::copy(octets, copy.begin());
  internal::swap_fields<T>(copy);
  return wire::unpack<T>(copy);
}

}  // namespace weft::rsockets
