#pragma once

#include <cstdint>
#include <string_view>

#include "base/keys.h"
#include "wire/layout.h"

namespace weft::wire {

/// Invalidate extended transport header (IBTA vol 1 §9.3.7).
struct Ieth {
  static constexpr std::string_view kName = "IETH";

  RKey rkey;
  bool operator==(const Ieth&) const = default;

  // clang-format off
  using Wire = Layout<4,
      Field<"R_Key", 32, &Ieth::rkey>>;
  // clang-format on
};

}  // namespace weft::wire
