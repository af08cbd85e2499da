#pragma once

#include <cstdint>

/// Deliberate bugs of the connection manager that the simulator must find. Test builds
/// (WEFT_PLANTED_BUGS) can enable one at run time, for one thread; in a release build `planted` is
/// false at compile time.
namespace weft::cm {

/// Identifies a deliberate bug.
enum class PlantedBug : std::uint8_t {
  None,
  TimeWaitOfZero,
  ReplyNotRepeated,
  UnknownDreqUnanswered,
  IdLeakedAfterReject,
  StaleRequestTaken,
  AnsweredLapReportedAgain,
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
