#pragma once

#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

/// Immediate data (IBTA vol 1 §9.3.6), as a number.
struct ImmDt {
  static constexpr std::string_view kName = "ImmDt";

  std::uint32_t immediate{};
  bool operator==(const ImmDt&) const = default;

  // clang-format off
  using Wire = Layout<4,
      Field<"ImmDt", 32, &ImmDt::immediate>>;
  // clang-format on
};

}  // namespace weft::wire
