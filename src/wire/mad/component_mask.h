#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "wire/layout.h"

/// The ComponentMask of SA (IBTA vol 1 §15.2.1.1): bit n speaks of the n-th component of the
/// record. Components are the record's fields in wire order, reserved ones and single elements of
/// arrays too, so the bits follow from the layout and have the names of its fields.
namespace weft::wire {

struct Component {
  std::string_view name;  ///< empty when reserved
  std::size_t first_bit{};
  std::size_t bits{};
};

namespace internal {

/// Bit of the first component of that name.
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

/// The mask with the component of that name, as in `kComponent<PathRecord, "DGID">`; of an array,
/// its first element.
template <WireType T, Name kFieldName>
inline constexpr std::uint64_t kComponent = [] {
  constexpr auto kBit = internal::component_bit<T>(kFieldName.view());
  static_assert(kBit.has_value() && *kBit < 64, "the record has no such component");
  return std::uint64_t{1} << *kBit;
}();

/// The component that bit `index` of a mask speaks of; none behind the last.
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

/// Bits of a mask that speak of components of T.
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

/// Whether two records have the same value in every named component that the mask names. Reserved
/// components and bits behind the last component say nothing.
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
