#pragma once

#include <cstdint>

/// Deliberate bugs that the simulator must detect. Test builds (WEFT_PLANTED_BUGS) can enable one
/// at run time, for one thread; in release builds planted() is false at compile time.
namespace weft::hca {

enum class PlantedBug : std::uint8_t {
  None,
  ExpectedPsnCheckSkipped,
  CompletionBeforeAcknowledge,
  AtomicExecutedTwice,
  UnplacedWriteAcknowledged,
  ReadResponseMisplaced,
  RnrTimerIgnored,
  FlushOmitted,
  DuplicateSendExecuted,
  RepeatedReadFromItsStart,
  LostReadResponseAccepted,
  UnsignaledCompletes,
  CompletionLost,
  UnlimitedRetries,
  RetryTimerNotArmed,
  RewindTooShort,
  LastByteNotPlaced,
  AcknowledgedTooFar,
  ReceiveWqeUsedTwice,
  KeyRangeNotChecked,
  SequenceErrorNakLost,
  FlushAnsweredBeforeData,
  // of direct placement
  PlacementOvertakesPackets,
  PlacementNotWithdrawn,
  RefusedPlacementCompletes,
  PlacementTakesPsns,
  PlacedAtomicWithoutRight,
  PlacedAtomicSentAsWell,
  // of UC
  UcPsnNotChecked,
  UcLostMiddleCompletes,
  UcRestOfMessageIsMessage,
  UcReceiveLostWithMessage,
  UcWritePastItsKey,
  // of UD
  UdQKeyNotChecked,
  UdReceiveLostToWrongQKey,
  UdGrhFlagMissing,
  UdPayloadWithoutItsOffset,
  UdTooLongSucceeds,
  UdPsnRepeated,
};

inline constexpr PlantedBug kFirstPlacementBug = PlantedBug::PlacementOvertakesPackets;
inline constexpr PlantedBug kFirstPlacedAtomicBug = PlantedBug::PlacedAtomicWithoutRight;
inline constexpr PlantedBug kFirstUcBug = PlantedBug::UcPsnNotChecked;
inline constexpr PlantedBug kFirstUdBug = PlantedBug::UdQKeyNotChecked;
inline constexpr PlantedBug kLastBug = PlantedBug::UdPsnRepeated;

#ifdef WEFT_PLANTED_BUGS
extern constinit thread_local PlantedBug planted_bug;
[[nodiscard]] inline bool planted(PlantedBug bug) { return planted_bug == bug; }
#else
[[nodiscard]] constexpr bool planted(PlantedBug /*bug*/) { return false; }
#endif

}  // namespace weft::hca
