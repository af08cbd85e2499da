#pragma once

#include <compare>
#include <cstdint>

namespace weft::uabi {

/// A process of the fabric: its host, as index of the node in the tables, and its slot there.
struct ProcessAddress {
  std::uint32_t node{};
  std::uint32_t slot{};
  auto operator<=>(const ProcessAddress&) const = default;
};

}  // namespace weft::uabi
