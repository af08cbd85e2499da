#pragma once

#include <cstdint>

/// Mistakes of the connection manager that the simulator must find. They exist only in the library
/// variant that tests/planted_bugs builds with WEFT_PLANTED_BUGS; everywhere else `planted` is
/// false at compile time and costs nothing.
namespace weft::cm {

enum class PlantedBug : std::uint8_t {
  None,
  TimeWaitOfZero,
  ReplyNotRepeated,
  UnknownDreqUnanswered,
  IdKeptAfterReject,
  StaleRequestTaken,
};

inline constexpr PlantedBug kLastBug = PlantedBug::StaleRequestTaken;

#ifdef WEFT_PLANTED_BUGS
extern thread_local PlantedBug planted_bug;
[[nodiscard]] inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
[[nodiscard]] constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace weft::cm
