#pragma once

#include <cstdint>
#include <span>

#include "base/time.h"

/// Bugs of lanes, threads and sleeps that tests/planted_bugs must find, on whole fabrics, or the
/// interleaving explorer (ring/sleeper_interleaving_test.cc). Builds for tests
/// (WEFT_PLANTED_BUGS) can switch one on at run time, for all threads of a program at once; in a
/// release build `planted` is false at compile time and costs nothing.
namespace weft {

enum class LiveBug : std::uint8_t {
  None,
  LeaseNeverExpires,         // the thread believes for ever that the application polls
  StoppedPeerCounted,        // a retry timer counts while the peer has not read the request
  StoppedResponderCounted,   // it counts while the peer is at what it has read
  UnreadResponseCounted,     // it counts although the answer has come
  FinalScanSkipped,          // the thread sleeps without a last look at its rings
  SleepAnnouncedTooLate,     // as without a fence: the last look precedes its announcement
  DoorbellNotAdded,          // the peer is woken, but the board does not say for which lane
  DoorbellConsumedSilently,  // the consumer of a doorbell does not wake the thread, which may have
                             // missed both the doorbell and the ring
  DoorbellClearedLate,       // a doorbell is forgotten that rang while the one before was answered
  NapEndNotSaid,             // peers go on to ring for one who looks
  NotifiedWithoutFence,      // the thread's state is read before what was left to it can be seen
  NewLaneNotPolled,          // what came before the lane was mapped rang no doorbell
  SpaceNotSignaled,          // who waits for room is not woken
  HeadNeverReloaded,         // a producer never reads again how far the consumer is
  WaiterForgotten,           // what a QP in line was given to send meanwhile is forgotten
  ResponsesWaitForRequests,  // a response stands in line behind requests without room
  DeadLaneNotDrained,        // the last messages of a process that is gone are lost
  SlotReusedAtOnce,          // a new process gets the QPNs of one that has just gone
};

/// What bounds the harm of a lost doorbell or wake, so that such mistakes hide behind it.
enum class SafetyNet : std::uint8_t { MaxSleep, SpaceWaitLimit, Nap, FullScan };

#ifdef WEFT_PLANTED_BUGS

[[nodiscard]] bool planted(LiveBug bug);
/// As planted(), and pauses first, to make the failing interleaving likely.
[[nodiscard]] bool planted_late(LiveBug bug);
[[nodiscard]] bool has(SafetyNet net);

/// Selects the program's bug and the safety nets to disable; `pause` is called by `planted_late`.
struct LivePlan {
  LiveBug bug = LiveBug::None;
  std::span<const SafetyNet> missing_nets;
  void (*pause)() = nullptr;
};
void plant(const LivePlan& plan);

#else

[[nodiscard]] constexpr bool planted(LiveBug /*bug*/) { return false; }
[[nodiscard]] constexpr bool planted_late(LiveBug /*bug*/) { return false; }
[[nodiscard]] constexpr bool has(SafetyNet /*net*/) { return true; }

#endif

/// The timeout of a sleep that is limited by `net`.
[[nodiscard]] inline Duration bounded_by(SafetyNet net, Duration bound) {
  return has(net) ? bound : Duration::seconds(3'600);
}

}  // namespace weft
