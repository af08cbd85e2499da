#pragma once

// Sleeping and waking as tables of states and events (docs/ARCHITECTURE.md, decisions 4 and 13):
// of the progress thread of a process, of each lane by which packets come to it, and of its
// application. ring/sleeper.h does what they say; tests/golden/ring/sleep_states.txt shows them.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

namespace weft::ring {

/// What a consumer that does not look at a lane wants to be woken for. It stands in memory that the
/// lane's peer reads.
enum class Sleep : std::uint32_t {
  None = 0,    // it looks
  Sound = 1,   // nobody looks: wake it for anything
  Napping = 2  // somebody looks now and then: wake it only for what cannot wait
};

/// What an event obliges somebody to do.
enum class Duty : std::uint8_t {
  None,
  LookOnceMore,  // the thread: announce it, make a full fence, then look once more
  Wait,          // the thread: on the futex word, unless that has changed since the announcement
  SayAwake,      // the thread: the peers of its lanes need not ring
  WakeThread,    // whoever caused the event: change the futex word and wake the thread
  RingDoorbell,  // the peer: add the lane to the doorbells that were rung, then wake the thread
  Watch,         // whoever consumed the doorbell: have the thread look at the lane from now on
};

/// One row: what an event does in a state.
template <class State, class Event>
struct SleepRow {
  State state;
  Event event;
  State next;
  Duty duty;
};

// --- the progress thread

enum class ThreadState : std::uint8_t {
  Looking,         // at the lanes that are watched, again and again
  NapAnnounced,    // looks once more before it naps
  Napping,         // waits for a moment, while the application polls
  SleepAnnounced,  // looks once more before it sleeps
  Asleep,          // waits until somebody wakes it
};
inline constexpr std::size_t kThreadStates = 5;

enum class ThreadEvent : std::uint8_t {
  // Its own.
  IdleWhilePolled,  // nothing came for as long as it spins, and the application polls
  Idle,             // nothing came, and nobody polls
  FinalScanEmpty,   // nothing came since it announced that it will wait
  FinalScanFound,
  WaitEnded,  // somebody woke it, or its time is over
  // Of others, at any moment.
  DoorbellConsumed,  // another thread took the doorbell of a lane that nobody else looks at
  WorkLeft,          // something that no doorbell announces: a QP in a wait queue, a record to self
  DeadlineSet,       // earlier than the time at which it wakes by itself
  LeaseEnded,        // the application, which it takes for one that polls, is about to wait
};
inline constexpr std::size_t kThreadEvents = 9;
inline constexpr std::array kEventsOfOthers{ThreadEvent::DoorbellConsumed, ThreadEvent::WorkLeft,
                                            ThreadEvent::DeadlineSet, ThreadEvent::LeaseEnded};

using ThreadRow = SleepRow<ThreadState, ThreadEvent>;

/// A nap is so short that whatever is left to the thread meanwhile can wait for its end; only an
/// application that stops polling cannot. Whoever sleeps may have missed both the doorbell, which
/// somebody else consumed, and the lane, which that one had not yet added to those watched.
consteval auto thread_table() {
  using enum ThreadState;
  using enum ThreadEvent;
  using enum Duty;
  return std::to_array<ThreadRow>({
      {Looking,        IdleWhilePolled,  NapAnnounced,   LookOnceMore},
      {Looking,        Idle,             SleepAnnounced, LookOnceMore},
      {NapAnnounced,   FinalScanEmpty,   Napping,        Wait        },
      {NapAnnounced,   FinalScanFound,   Looking,        SayAwake    },
      {Napping,        WaitEnded,        Looking,        SayAwake    },
      {SleepAnnounced, FinalScanEmpty,   Asleep,         Wait        },
      {SleepAnnounced, FinalScanFound,   Looking,        None        },
      {Asleep,         WaitEnded,        Looking,        None        },

      {Looking,        DoorbellConsumed, Looking,        None        },
      {NapAnnounced,   DoorbellConsumed, NapAnnounced,   None        },
      {Napping,        DoorbellConsumed, Napping,        None        },
      {SleepAnnounced, DoorbellConsumed, SleepAnnounced, WakeThread  },
      {Asleep,         DoorbellConsumed, Asleep,         WakeThread  },
      {Looking,        WorkLeft,         Looking,        None        },
      {NapAnnounced,   WorkLeft,         NapAnnounced,   None        },
      {Napping,        WorkLeft,         Napping,        None        },
      {SleepAnnounced, WorkLeft,         SleepAnnounced, WakeThread  },
      {Asleep,         WorkLeft,         Asleep,         WakeThread  },
      {Looking,        DeadlineSet,      Looking,        None        },
      {NapAnnounced,   DeadlineSet,      NapAnnounced,   None        },
      {Napping,        DeadlineSet,      Napping,        None        },
      {SleepAnnounced, DeadlineSet,      SleepAnnounced, WakeThread  },
      {Asleep,         DeadlineSet,      Asleep,         WakeThread  },
      {Looking,        LeaseEnded,       Looking,        None        },
      {NapAnnounced,   LeaseEnded,       NapAnnounced,   WakeThread  },
      {Napping,        LeaseEnded,       Napping,        WakeThread  },
      {SleepAnnounced, LeaseEnded,       SleepAnnounced, None        },
      {Asleep,         LeaseEnded,       Asleep,         None        },
  });
}
inline constexpr auto kThreadTable = thread_table();

// --- a lane, as the process has it that packets come to

enum class LaneWatch : std::uint8_t {
  Watched,      // the thread looks, or is about to: the peer need not ring
  UrgentAsked,  // the peer rings for what cannot wait
  AnyAsked,     // the peer rings for anything
  Rung,         // the peer has rung: somebody will consume the doorbell
};
inline constexpr std::size_t kLaneWatches = 4;

enum class LaneEvent : std::uint8_t {
  // Of the thread that is about to wait.
  NapWhilePolled,  // the application polls this lane, too
  NapUnpolled,
  Sleep,
  FinalScanFound,  // something has come since the peer was asked to ring
  NapOver,
  // Of the peer.
  SentUrgent,  // what the application does not wait for (station::SeriesUrgency)
  SentOther,
  // Of whoever looks at the board of doorbells.
  DoorbellConsumed,
};
inline constexpr std::size_t kLaneEvents = 8;

using LaneRow = SleepRow<LaneWatch, LaneEvent>;

/// A doorbell may be consumed late, when the lane is watched or the peer was asked anew: the
/// consumer does not know, and has the lane looked at in any case.
consteval auto lane_table() {
  using enum LaneWatch;
  using enum LaneEvent;
  using enum Duty;
  return std::to_array<LaneRow>({
      {Watched,     NapWhilePolled,   UrgentAsked, LookOnceMore},
      {Watched,     NapUnpolled,      AnyAsked,    LookOnceMore},
      {Watched,     Sleep,            AnyAsked,    LookOnceMore},
      {Watched,     NapOver,          Watched,     SayAwake    },
      {Watched,     SentUrgent,       Watched,     None        },
      {Watched,     SentOther,        Watched,     None        },
      {Watched,     DoorbellConsumed, Watched,     Watch       },

      {UrgentAsked, FinalScanFound,   UrgentAsked, None        },
      {UrgentAsked, NapOver,          Watched,     SayAwake    },
      {UrgentAsked, SentUrgent,       Rung,        RingDoorbell},
      {UrgentAsked, SentOther,        UrgentAsked, None        },
      {UrgentAsked, DoorbellConsumed, UrgentAsked, Watch       },

      {AnyAsked,    NapWhilePolled,   UrgentAsked, LookOnceMore},
      {AnyAsked,    NapUnpolled,      AnyAsked,    LookOnceMore},
      {AnyAsked,    Sleep,            AnyAsked,    LookOnceMore},
      {AnyAsked,    FinalScanFound,   Watched,     SayAwake    },
      {AnyAsked,    NapOver,          Watched,     SayAwake    },
      {AnyAsked,    SentUrgent,       Rung,        RingDoorbell},
      {AnyAsked,    SentOther,        Rung,        RingDoorbell},
      {AnyAsked,    DoorbellConsumed, AnyAsked,    Watch       },

      {Rung,        NapWhilePolled,   UrgentAsked, LookOnceMore},
      {Rung,        NapUnpolled,      AnyAsked,    LookOnceMore},
      {Rung,        Sleep,            AnyAsked,    LookOnceMore},
      {Rung,        FinalScanFound,   Rung,        SayAwake    },
      {Rung,        NapOver,          Rung,        SayAwake    },
      {Rung,        SentUrgent,       Rung,        None        },
      {Rung,        SentOther,        Rung,        None        },
      {Rung,        DoorbellConsumed, Watched,     Watch       },
  });
}
inline constexpr auto kLaneTable = lane_table();

/// What the peer of a lane in that state reads.
[[nodiscard]] constexpr Sleep shown_to_peer(LaneWatch state) {
  return state == LaneWatch::UrgentAsked ? Sleep::Napping
         : state == LaneWatch::AnyAsked  ? Sleep::Sound
                                         : Sleep::None;
}

// --- the application

enum class ApplicationState : std::uint8_t { Waiting, Polling };
inline constexpr std::size_t kApplicationStates = 2;
enum class ApplicationEvent : std::uint8_t { Polls, WillWait };
inline constexpr std::size_t kApplicationEvents = 2;

using ApplicationRow = SleepRow<ApplicationState, ApplicationEvent>;

/// Who polls has the lease of what it looks at. That it ends is ThreadEvent::LeaseEnded.
consteval auto application_table() {
  using enum ApplicationState;
  using enum ApplicationEvent;
  using enum Duty;
  return std::to_array<ApplicationRow>({
      {Waiting, Polls,    Polling, None      },
      {Waiting, WillWait, Waiting, None      },
      {Polling, Polls,    Polling, None      },
      {Polling, WillWait, Waiting, WakeThread},
  });
}
inline constexpr auto kApplicationTable = application_table();

// --- what is asked of the tables, and what must be so

/// The row of a state and an event; null if the event does not happen there.
template <class State, class Event, std::size_t Count>
[[nodiscard]] constexpr const SleepRow<State, Event>* find_row(
    const std::array<SleepRow<State, Event>, Count>& table, State state, Event event) {
  const auto found = std::ranges::find_if(table, [&](const SleepRow<State, Event>& row) {
    return row.state == state && row.event == event;
  });
  return found == table.end() ? nullptr : &*found;
}

/// The states of the thread, as bits, in which whoever causes `event` must wake it.
[[nodiscard]] constexpr std::uint32_t states_to_wake_in(ThreadEvent event) {
  std::uint32_t states = 0;
  for (const ThreadRow& row : kThreadTable) {
    states |= row.event == event && row.duty == Duty::WakeThread
                  ? 1U << static_cast<std::uint32_t>(row.state)
                  : 0;
  }
  return states;
}

/// What the peer of a lane is asked for by a thread that is about to wait.
[[nodiscard]] constexpr Sleep asked_by(LaneEvent event) {
  return shown_to_peer(find_row(kLaneTable, LaneWatch::Watched, event)->next);
}

/// Whether a peer that has sent something must ring, by what it read.
[[nodiscard]] constexpr bool wants_doorbell(Sleep sleep, bool is_urgent) {
  return sleep != Sleep::None && (is_urgent || sleep != Sleep::Napping);
}

namespace internal {
template <class Table>
consteval bool rows_are_unique(const Table& table) {
  return std::ranges::all_of(
      table, [&](const auto& row) { return find_row(table, row.state, row.event) == &row; });
}

/// From the first state, by any number of rows.
template <class Table>
consteval bool reaches_all(const Table& table, std::size_t states) {
  std::uint32_t reached = 1;
  for (std::size_t round = 0; round < states; ++round) {
    for (const auto& row : table) {
      reached |= (reached >> static_cast<unsigned>(row.state) & 1U)
                 << static_cast<unsigned>(row.next);
    }
  }
  return reached == (1U << states) - 1;
}

/// Back to the first state from every other.
template <class Table>
consteval bool leads_back(const Table& table, std::size_t states) {
  std::uint32_t returning = 1;
  for (std::size_t round = 0; round < states; ++round) {
    for (const auto& row : table) {
      returning |= (returning >> static_cast<unsigned>(row.next) & 1U)
                   << static_cast<unsigned>(row.state);
    }
  }
  return returning == (1U << states) - 1;
}

consteval bool others_are_answered_in_every_state() {
  return std::ranges::all_of(kEventsOfOthers, [](ThreadEvent event) {
    for (std::size_t state = 0; state < kThreadStates; ++state) {
      const auto* const row = find_row(kThreadTable, static_cast<ThreadState>(state), event);
      if (row == nullptr || row->next != row->state) {
        return false;
      }
    }
    return true;
  });
}

consteval bool waits_only_after_a_last_look() {
  return std::ranges::all_of(kThreadTable, [](const ThreadRow& row) {
    const bool begins_to_wait = row.duty == Duty::Wait;
    return begins_to_wait == (row.event == ThreadEvent::FinalScanEmpty) &&
           (!begins_to_wait || std::ranges::any_of(kThreadTable, [&](const ThreadRow& before) {
             return before.next == row.state && before.duty == Duty::LookOnceMore;
           }));
  });
}

consteval bool peers_ring_as_they_read() {
  return std::ranges::all_of(kLaneTable, [](const LaneRow& row) {
    const bool is_urgent = row.event == LaneEvent::SentUrgent;
    return (!is_urgent && row.event != LaneEvent::SentOther) ||
           wants_doorbell(shown_to_peer(row.state), is_urgent) == (row.duty == Duty::RingDoorbell);
  });
}

consteval bool peers_are_answered_in_every_state() {
  for (std::size_t state = 0; state < kLaneWatches; ++state) {
    if (find_row(kLaneTable, static_cast<LaneWatch>(state), LaneEvent::SentUrgent) == nullptr ||
        find_row(kLaneTable, static_cast<LaneWatch>(state), LaneEvent::SentOther) == nullptr) {
      return false;
    }
  }
  return true;
}

consteval bool lanes_are_looked_at_when_peers_are_asked() {
  return std::ranges::all_of(kLaneTable, [](const LaneRow& row) {
    const bool asks = row.event <= LaneEvent::Sleep;
    return asks == (row.duty == Duty::LookOnceMore) &&
           (!asks || shown_to_peer(row.next) != Sleep::None);
  });
}

/// What a peer is asked for does not depend on what it was asked for before.
consteval bool is_asked_alike_in_every_state() {
  return std::ranges::all_of(kLaneTable, [](const LaneRow& row) {
    return row.duty != Duty::LookOnceMore || shown_to_peer(row.next) == asked_by(row.event);
  });
}

inline constexpr std::uint32_t kSleepStates =
    1U << static_cast<unsigned>(ThreadState::SleepAnnounced) |
    1U << static_cast<unsigned>(ThreadState::Asleep);

static_assert(rows_are_unique(kThreadTable) && rows_are_unique(kLaneTable) &&
                  rows_are_unique(kApplicationTable),
              "one row says what an event does in a state");
static_assert(reaches_all(kThreadTable, kThreadStates) && reaches_all(kLaneTable, kLaneWatches) &&
                  reaches_all(kApplicationTable, kApplicationStates),
              "every state can be got into");
static_assert(leads_back(kThreadTable, kThreadStates) && leads_back(kLaneTable, kLaneWatches) &&
                  leads_back(kApplicationTable, kApplicationStates),
              "and out of");
static_assert(others_are_answered_in_every_state(),
              "what others do can happen in every state, and changes none: it is the thread's own");
static_assert(waits_only_after_a_last_look(),
              "nobody waits who did not announce it and look again");
static_assert(states_to_wake_in(ThreadEvent::DoorbellConsumed) == kSleepStates &&
                  states_to_wake_in(ThreadEvent::WorkLeft) == kSleepStates &&
                  states_to_wake_in(ThreadEvent::DeadlineSet) == kSleepStates,
              "the consumer of a doorbell must wake the sleeper, which may have missed both the "
              "doorbell and the ring");
static_assert(peers_are_answered_in_every_state() && peers_ring_as_they_read(),
              "a peer decides by what it reads, and rings as the table says");
static_assert(is_asked_alike_in_every_state(), "the thread need not know what a peer was asked");
static_assert(lanes_are_looked_at_when_peers_are_asked(),
              "what came before the peer was asked to ring rings no doorbell");
}  // namespace internal

}  // namespace weft::ring
