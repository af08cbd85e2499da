#pragma once

#include <cstdint>
#include <string_view>

#include "wire/layout.h"

namespace weft::wire {

inline constexpr std::uint16_t kEtherTypeArp = 0x0806;

/// Header of every IPoIB payload (RFC 4391 §6), with the EtherType of the protocol that follows.
struct IpoibEncapsulation {
  static constexpr std::string_view kName = "IPoIB";

  std::uint16_t type{};
  bool operator==(const IpoibEncapsulation&) const = default;

  // clang-format off
  using Wire = Layout<4,
      Field<"Type", 16, &IpoibEncapsulation::type>,
      Reserved<16>>;
  // clang-format on
};

}  // namespace weft::wire
