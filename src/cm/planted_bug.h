#pragma once

#include <cstdint>

/// Mistakes of the connection manager that the simulator must find. Builds for tests
/// (WEFT_PLANTED_BUGS) can switch one on at run time, for one thread; in a release build `planted`
/// is false at compile time and costs nothing.
namespace weft::cm {

enum class PlantedBug : std::uint8_t {
  None,
  TimeWaitOfZero,
  ReplyNotRepeated,
  UnknownDreqUnanswered,
  IdKeptAfterReject,
  StaleRequestTaken,
  AnsweredLapToldAgain,
  RefusedPathLoaded,
  LookupNotRepeated,
};

inline constexpr PlantedBug kLastBug = PlantedBug::LookupNotRepeated;

#ifdef WEFT_PLANTED_BUGS
extern constinit thread_local PlantedBug planted_bug;
[[nodiscard]] inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
[[nodiscard]] constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace weft::cm
