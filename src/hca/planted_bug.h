#pragma once

#include <cstdint>

/// Mistakes that the simulator must find. Builds for tests
/// (WEFT_PLANTED_BUGS) can switch one on at run time, for one thread; in a release build `planted`
/// is false at compile time and costs nothing.
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
