#pragma once

#include <cstdint>

/// Deliberate bugs of the port mapper that its tests over a lossy network must find. Test builds
/// (WEFT_PLANTED_BUGS) can enable one at run time, for one thread; in a release build `planted` is
/// false at compile time.
namespace weft::iwpm {

/// Identifies a deliberate bug.
enum class PlantedBug : std::uint8_t {
  None,
  ReferenceForgotten,         ///< the second user of a mapping is not counted
  ReplayNotCounted,           ///< of a replay the second record of a mapping is not counted
  RemovalIgnored,             ///< a mapping's users never become fewer
  RequestNotRepeated,         ///< a lost request to a peer is not sent again
  DuplicateRequestTold,       ///< a request that comes twice is told to the kernel twice
  RequestLeakedAfterTimeout,  ///< a request whose time is over keeps the list's reference
  RegistrationKept,           ///< a new daemon is taken for the old one, and is not registered with
};

inline constexpr PlantedBug kLastBug = PlantedBug::RegistrationKept;

#ifdef WEFT_PLANTED_BUGS
extern constinit thread_local PlantedBug planted_bug;
[[nodiscard]] inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
[[nodiscard]] constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace weft::iwpm
