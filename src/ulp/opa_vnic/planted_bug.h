#pragma once

#include <cstdint>

/// Deliberate bugs of virtual NICs and their manager that the simulated fabric must find. Test
/// builds (WEFT_PLANTED_BUGS) can enable one at run time, for one thread; in a release build
/// `planted` is false at compile time.
namespace weft::opa_vnic {

/// Identifies a deliberate bug.
enum class PlantedBug : std::uint8_t {
  None,
  AnyVeswDelivered,      ///< a packet goes to a port's first vport, whatever its virtual switch
  SourceEntryIsDest,     ///< the look-up of a destination finds entries for sources
  OldEntriesStay,        ///< a block is added to the MAC table, and replaces nothing
  ForwardsWhileDropAll,  ///< the configured state does not matter
  FilterIgnored,         ///< frames for other stations are delivered
  TrapNotRepeated,       ///< a trap that is lost is never sent again
  RestartUnnoticed,      ///< the manager takes a port that was loaded anew for the old one
};

inline constexpr PlantedBug kLastBug = PlantedBug::RestartUnnoticed;

#ifdef WEFT_PLANTED_BUGS
extern constinit thread_local PlantedBug planted_bug;
[[nodiscard]] inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
[[nodiscard]] constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace weft::opa_vnic
