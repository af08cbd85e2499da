#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "wire/layout.h"

/// ComponentMask of SA queries (IBTA vol 1 §15.2.1.1): bit n selects the n-th component of the
/// record. Components are the record's fields in wire order, including reserved ones and each array
/// element, so the bits are derived from the layout and named after its fields.
namespace weft::wire {

struct Component {
  std::string_view name;  ///< empty when reserved
  std::size_t first_bit{};
  std::size_t bits{};
};

namespace internal {

/// Bit of the first component with the name.
template <WireType T>
[[nodiscard]] consteval std::optional<unsigned> component_bit(std::string_view name) {
  unsigned index = 0;
  std::optional<unsigned> found;
  describe<T>([&](std::string_view field, std::size_t, std::size_t) {
    if (field == name && !found) {
      found = index;
    }
    ++index;
  });
  return found;
}

}  // namespace internal

/// Mask of the component with the name, as in `kComponent<PathRecord, "DGID">`; for an array, its
/// first element.
template <WireType T, Name kFieldName>
inline constexpr std::uint64_t kComponent = [] {
  constexpr auto kBit = internal::component_bit<T>(kFieldName.view());
  static_assert(kBit.has_value() && *kBit < 64, "the record has no such component");
  return std::uint64_t{1} << *kBit;
}();

/// The component selected by bit `index`; none beyond the last.
template <WireType T>
[[nodiscard]] constexpr std::optional<Component> component_at(unsigned index) {
  unsigned at = 0;
  std::optional<Component> found;
  describe<T>([&](std::string_view name, std::size_t first_bit, std::size_t bits) {
    if (at++ == index) {
      found = Component{.name = name, .first_bit = first_bit, .bits = bits};
    }
  });
  return found;
}

/// Bits of a mask that select components of T.
template <WireType T>
[[nodiscard]] constexpr std::uint64_t all_components() {
  std::uint64_t mask = 0;
  unsigned index = 0;
  describe<T>([&](std::string_view, std::size_t, std::size_t) {
    mask |= index < 64 ? std::uint64_t{1} << index : 0;
    ++index;
  });
  return mask;
}

/// True if two records are equal in all named components selected by the mask. Bits of reserved
/// components, or beyond the last one, are ignored.
template <WireType T>
[[nodiscard]] constexpr bool components_match(const T& wanted, const T& record,
                                              std::uint64_t mask) {
  const auto wanted_bytes = pack(wanted);
  const auto record_bytes = pack(record);
  bool match = true;
  unsigned index = 0;
  describe<T>([&](std::string_view name, std::size_t first_bit, std::size_t bits) {
    if (index < 64 && (mask >> index & 1) != 0 && !name.empty()) {
      for (std::size_t done = 0; done < bits && match;) {
        const auto part = static_cast<unsigned>(bits - done < 64 ? bits - done : 64);
        match = internal::read_bits(wanted_bytes.data(), first_bit + done, part) ==
                internal::read_bits(record_bytes.data(), first_bit + done, part);
        done += part;
      }
    }
    ++index;
  });
  return match;
}

}  // namespace weft::wire
