#pragma once

#include <cstdint>

/// Deliberate bugs of both ends of iSER that the simulation must find. Test builds
/// (WEFT_PLANTED_BUGS) can enable one at run time, for one thread; in a release build `planted` is
/// false at compile time.
namespace weft::iser {

/// Identifies a deliberate bug.
enum class PlantedBug : std::uint8_t {
  None,
  UnsolicitedNotPassed,      ///< the write address does not pass what goes unsolicited
  UnsolicitedOffsetIgnored,  ///< each Data-Out PDU has the first octets of the data
  DataInAtStart,             ///< each RDMA WRITE lands at the start of the buffer
};

inline constexpr PlantedBug kLastBug = PlantedBug::DataInAtStart;

#ifdef WEFT_PLANTED_BUGS
extern constinit thread_local PlantedBug planted_bug;
[[nodiscard]] inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
[[nodiscard]] constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace weft::iser
