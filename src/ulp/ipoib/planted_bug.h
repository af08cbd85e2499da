#pragma once

#include <cstdint>

/// Deliberate bugs of IPoIB that the simulated link must find. Test builds (WEFT_PLANTED_BUGS) can
/// enable one at run time, for one thread; in a release build `planted` is false at compile time.
namespace weft::ipoib {

/// Identifies a deliberate bug.
enum class PlantedBug : std::uint8_t {
  None,
  LeaveForgotten,      ///< a group that nobody listens to any more is not left
  RefusalIgnored,      ///< memberships that SA does not give, or not again, are not asked for again
  OldPathKept,         ///< another subnet manager, and packets go where the old one sent them
  QueueSentTwice,      ///< packets that waited for a path are kept when they are sent
  AnyGroupDelivered,   ///< packets of groups that nobody listens to are delivered
  LostConnectionKept,  ///< packets go on to a connection that is lost
};

inline constexpr PlantedBug kLastBug = PlantedBug::LostConnectionKept;

#ifdef WEFT_PLANTED_BUGS
extern constinit thread_local PlantedBug planted_bug;
[[nodiscard]] inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
[[nodiscard]] constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace weft::ipoib
