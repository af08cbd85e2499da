#pragma once

#include <cstdint>

/// Deliberate bugs of iSCSI's initiator that the simulation must find. Test builds
/// (WEFT_PLANTED_BUGS) can enable one at run time, for one thread; in a release build `planted` is
/// false at compile time.
namespace weft::iscsi {

/// Identifies a deliberate bug.
enum class PlantedBug : std::uint8_t {
  None,
  InterruptedTakenAsDone,  ///< a command of a lost session ends as if it were good
  CommandWindowIgnored,    ///< commands are sent beyond MaxCmdSN
  RequestedOffsetIgnored,  ///< an R2T is answered with the buffer's first octets
  DataInAtStart,           ///< each Data-In PDU lands at the start of the buffer
  DigestIgnored,           ///< damaged data is taken
};

inline constexpr PlantedBug kLastBug = PlantedBug::DigestIgnored;

#ifdef WEFT_PLANTED_BUGS
extern constinit thread_local PlantedBug planted_bug;
[[nodiscard]] inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
[[nodiscard]] constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace weft::iscsi
