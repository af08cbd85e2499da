#pragma once

#include <cstdint>

namespace weft::wire {

/// How an MTU, rate or packet life time of an SA record is meant (IBTA vol 1 §15.2.5.16): compared
/// with the value beside it, or the best that there is.
enum class Selector : std::uint8_t { GreaterThan = 0, LessThan = 1, Exactly = 2, Best = 3 };

}  // namespace weft::wire
