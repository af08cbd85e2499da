#pragma once

#include <cstdint>
#include <span>

#include "base/time.h"

/// Deliberate bugs in lanes, threads and sleeping that tests/planted_bugs must find. Test builds
/// (WEFT_PLANTED_BUGS) can enable one at run time, for all threads of a program; in a release build
/// `planted` is false at compile time.
namespace weft {

enum class LiveBug : std::uint8_t {
  None,
  LeaseNeverStale,           // the thread believes for ever that the application polls
  StoppedPeerCounted,        // a retry timer counts while the peer has not read the request
  StoppedAnswererCounted,    // it counts while the peer is at what it has read
  UnreadAnswerCounted,       // it counts although the answer has come
  LastLookLeftOut,           // the thread sleeps without a last look at its rings
  SleepAnnouncedLate,        // as without a fence: the last look precedes its announcement
  BellNotAdded,              // the peer is woken, but the board does not say for which lane
  NewLaneNotWatched,         // what came before the lane was mapped rang no bell
  RoomNotTold,               // who waits for room is not woken
  FullForEver,               // a producer never reads again how far the consumer is
  LeavesLineForGood,         // what a QP in line was given to send meanwhile is forgotten
  ResponsesWaitForRequests,  // a response stands in line behind requests without room
  DeadLaneNotDrained,        // the last messages of a process that is gone are lost
  SlotReusedAtOnce,          // a new process gets the QPNs of one that has just gone
};

/// Timeouts that limit the damage of a lost doorbell or wake-up, and thus hide such bugs.
enum class SafetyNet : std::uint8_t { LongestSleep, RoomPatience, Nap, LookAtAll };

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
