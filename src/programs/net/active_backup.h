#pragma once

// Which of an interface's ports carries it, as active-backup of Linux's bonding chooses: one that
// is up, the first at first, and no other until it goes down; then the next that is up. While none
// is, the last one stays. Pure.

#include <algorithm>
#include <cstddef>
#include <span>

namespace weft::programs::net {

[[nodiscard]] inline std::size_t choose_active(std::size_t active, std::span<const bool> is_up) {
  if (active < is_up.size() && is_up[active]) {
    return active;
  }
  const auto next = std::ranges::find(is_up, true);
  return next == is_up.end() ? active : static_cast<std::size_t>(next - is_up.begin());
}

}  // namespace weft::programs::net
