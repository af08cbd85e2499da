#pragma once

// Helpers of Pma: attributes in the data of a MAD, and saturating counters.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include "wire/layout.h"
#include "wire/mad/perf_mad.h"

namespace weft::agents {

/// PMA counters stop at their maximum (IBTA vol 1 §16.1.3.5).
template <class To>
[[nodiscard]] To saturated(std::uint64_t value) {
  return static_cast<To>(std::min<std::uint64_t>(value, std::numeric_limits<To>::max()));
}

/// Replaces the data by `value`, followed by zeros.
template <wire::WireType T>
void answer_with(std::span<std::byte, wire::kPerfDataBytes> data, const T& value) {
  std::ranges::fill(data, std::byte{});
  wire::pack(value, data.template first<wire::kSizeOf<T>>());
}

template <wire::WireType T>
[[nodiscard]] T taken_from(std::span<const std::byte, wire::kPerfDataBytes> data) {
  return wire::unpack<T>(data.template first<wire::kSizeOf<T>>());
}

/// True if CounterSelect includes `counter`.
template <class Select>
[[nodiscard]] bool has(std::underlying_type_t<Select> selected, Select counter) {
  return (selected & static_cast<std::underlying_type_t<Select>>(counter)) != 0;
}

}  // namespace weft::agents
