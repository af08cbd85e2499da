#pragma once

#include <compare>
#include <cstdint>

namespace weft {

/// Address of a process: node index of its host in the tables, and its slot there.
struct ProcessAddress {
  std::uint32_t node{};
  std::uint32_t slot{};
  auto operator<=>(const ProcessAddress&) const = default;
};

}  // namespace weft
