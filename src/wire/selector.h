#pragma once

#include <cstdint>

namespace weft::wire {

/// Selector of an MTU, rate or packet lifetime in SA records (IBTA vol 1 §15.2.5.16): a comparison
/// with the value next to it, or the largest available.
enum class Selector : std::uint8_t { GreaterThan = 0, LessThan = 1, Exactly = 2, Best = 3 };

}  // namespace weft::wire
