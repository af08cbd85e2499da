#pragma once

#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

/// Extended reliable connected transport header (IBTA vol 1 annex A14).
struct Xrceth {
  static constexpr std::string_view kName = "XRCETH";

  std::uint32_t xrc_srqn{};  // 24 bits
  bool operator==(const Xrceth&) const = default;

  // clang-format off
  using Wire = Layout<4,
      Reserved<8>,
      Field<"XRCSRQ", 24, &Xrceth::xrc_srqn>>;
  // clang-format on
};

}  // namespace weft::wire
