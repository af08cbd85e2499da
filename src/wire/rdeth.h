#pragma once

#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

/// Reliable datagram extended transport header (IBTA vol 1 §9.3.1).
struct Rdeth {
  static constexpr std::string_view kName = "RDETH";

  std::uint32_t ee_context{};  // 24 bits
  bool operator==(const Rdeth&) const = default;

  // clang-format off
  using Wire = Layout<4,
      Reserved<8>,
      Field<"EE-Context", 24, &Rdeth::ee_context>>;
  // clang-format on
};

}  // namespace weft::wire
