#pragma once

#include <cstdint>

/// Deliberate bugs of both ends of SRP that the simulation must find. Test builds
/// (WEFT_PLANTED_BUGS) can enable one at run time, for one thread; in a release build `planted` is
/// false at compile time.
namespace weft::srp {

/// Identifies a deliberate bug.
enum class PlantedBug : std::uint8_t {
  None,
  CreditLostWithAbort,     ///< target: a command without a response keeps its credit
  CreditGivenTwice,        ///< target: a response grants one credit too many
  WaitListReordered,       ///< target: what came before the RTU is executed newest first
  RtuAfterDisconnect,      ///< target: a late RTU makes a channel live that is being disconnected
  OldNexusNotAwaited,      ///< target: a new login is accepted before the old nexus's tasks ended
  AbortedWriteExecuted,    ///< target: a write that was aborted while its data came is executed
  TaskCreditSpent,         ///< initiator: the credit for task management is used for a command
  LateResponseTaken,       ///< initiator: a response to an earlier use of a tag is taken
  InterruptedTakenAsDone,  ///< initiator: a command of a lost channel ends as if it were good
};

inline constexpr PlantedBug kLastBug = PlantedBug::InterruptedTakenAsDone;

#ifdef WEFT_PLANTED_BUGS
extern constinit thread_local PlantedBug planted_bug;
[[nodiscard]] inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
[[nodiscard]] constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace weft::srp
