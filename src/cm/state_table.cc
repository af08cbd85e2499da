#include "cm/state_table.h"

#include <fmt/format.h>

#include <initializer_list>
#include <map>
#include <utility>

namespace weft::cm {
namespace {

using enum State;

/// A set of states, as used in rows.
class States {
 public:
  constexpr States(State state)
      : bits_(1U << static_cast<unsigned>(state)) {
  }  // NOLINT(google-explicit-constructor): a state is a set of one
  constexpr States(std::initializer_list<State> states) {
    for (const State state : states) {
      bits_ |= 1U << static_cast<unsigned>(state);
    }
  }
  [[nodiscard]] constexpr bool has(State state) const {
    return (bits_ >> static_cast<unsigned>(state) & 1U) != 0;
  }

 private:
  std::uint32_t bits_{};
};

constexpr States kLapStates = {LapSent, LapRcvd, MraLapSent, MraLapRcvd};
constexpr States kConnected = {Established, LapSent, LapRcvd, MraLapSent, MraLapRcvd};
constexpr States kBeforeReply = {ReqRcvd, MraReqSent};
constexpr States kRequested = {ReqSent, MraReqRcvd};
constexpr States kReplied = {RepSent, MraRepRcvd};
constexpr States kHasReply = {RepRcvd, MraRepSent};

/// Stands for the current state in place of a next state.
struct SameState {};
constexpr SameState kSame{};

struct Row {
  constexpr Row(Input on, States in, State to, Action then)
      : input(on), states(in), next(to), action(then) {}
  constexpr Row(Input on, States in, SameState /*same*/, Action then)
      : input(on), states(in), is_same(true), action(then) {}

  Input input;
  States states;
  State next{};
  bool is_same{};
  Action action;
};

constexpr auto kRows = std::to_array<Row>({
    // Calls.
    {Input::Listen,            Idle,                                               Listen,      Action::Do            },
    {Input::SendReq,           Idle,                                               ReqSent,     Action::Do            },
    {Input::SendRep,           kBeforeReply,                                       RepSent,     Action::Do            },
    {Input::SendRtu,           kHasReply,                                          Established, Action::Do            },
    {Input::SendMra,           ReqRcvd,                                            MraReqSent,  Action::Do            },
    {Input::SendMra,           RepRcvd,                                            MraRepSent,  Action::Do            },
    {Input::SendMra,           LapRcvd,                                            MraLapSent,  Action::Do            },
    {Input::SendRej,           kRequested,                                         Idle,        Action::Do            },
    {Input::SendRej,           kBeforeReply,                                       Idle,        Action::Do            },
    {Input::SendRej,           kHasReply,                                          Idle,        Action::Do            },
    {Input::SendRej,           kReplied,                                           Timewait,    Action::Do            },
    {Input::NotifyEstablished, kReplied,                                           Established, Action::Do            },
    {Input::NotifyEstablished, kConnected,                                         kSame,       Action::AlreadyDone   },
    {Input::NotifyMigrated,    Established,                                        kSame,       Action::Do            },
    {Input::SendLap,           Established,                                        LapSent,     Action::Do            },
    {Input::SendApr,           {LapRcvd, MraLapSent},                              Established, Action::Do            },
    {Input::SendDreq,          kConnected,                                         DreqSent,    Action::Do            },
    {Input::SendDrep,          DreqRcvd,                                           Timewait,    Action::Do            },
    {Input::SendSidrReq,       Idle,                                               SidrReqSent, Action::Do            },
    {Input::SendSidrRep,       SidrReqRcvd,                                        Idle,        Action::Do            },

    // Destroy (IBTA vol 1 §12.9): what the peer must still answer continues without the user.
    {Input::Destroy,           {Idle, Listen, SidrReqSent},                        Idle,        Action::Leave         },
    {Input::Destroy,           {DreqSent, Timewait},                               kSame,       Action::Leave         },
    {Input::Destroy,           kRequested,                                         Idle,        Action::RejectTimeout },
    {Input::Destroy,           kBeforeReply,                                       Idle,        Action::RejectConsumer},
    {Input::Destroy,           kHasReply,                                          Idle,        Action::RejectConsumer},
    {Input::Destroy,           kReplied,                                           Timewait,    Action::RejectConsumer},
    {Input::Destroy,           kConnected,                                         DreqSent,    Action::Disconnect    },
    {Input::Destroy,           DreqRcvd,                                           Timewait,    Action::AnswerDreq    },
    {Input::Destroy,           SidrReqRcvd,                                        Idle,        Action::RejectSidr    },

    // Received messages.
    {Input::Req,               MraReqSent,                                         kSame,       Action::Repeat        },
    {Input::Req,               {ReqRcvd, RepSent, MraRepRcvd, DreqSent, DreqRcvd}, kSame,       Action::Duplicate     },
    {Input::Req,               kConnected,                                         kSame,       Action::Duplicate     },
    {Input::Req,               Timewait,                                           kSame,       Action::RejectStale   },
    {Input::ReqOfPeer,         kRequested,                                         ReqRcvd,     Action::Report        },
    {Input::MraOfReq,          ReqSent,                                            MraReqRcvd,  Action::Report        },
    {Input::MraOfReq,          MraReqRcvd,                                         kSame,       Action::Extend        },
    {Input::MraOfRep,          RepSent,                                            MraRepRcvd,  Action::Report        },
    {Input::MraOfRep,          MraRepRcvd,                                         kSame,       Action::Extend        },
    {Input::MraOfLap,          LapSent,                                            MraLapRcvd,  Action::Report        },
    {Input::MraOfLap,          MraLapRcvd,                                         kSame,       Action::Extend        },
    {Input::Rep,               kRequested,                                         RepRcvd,     Action::Report        },
    {Input::Rep,               RepRcvd,                                            kSame,       Action::Duplicate     },
    {Input::Rep,               MraRepSent,                                         kSame,       Action::Repeat        },
    {Input::Rep,               kConnected,                                         kSame,       Action::Repeat        },
    {Input::Rtu,               kReplied,                                           Established, Action::Report        },
    {Input::Rtu,               kConnected,                                         kSame,       Action::Duplicate     },
    {Input::Rej,               kRequested,                                         Idle,        Action::Report        },
    {Input::Rej,               kBeforeReply,                                       Idle,        Action::Report        },
    {Input::Rej,               kReplied,                                           Idle,        Action::Report        },
    {Input::Rej,               kHasReply,                                          Timewait,    Action::Report        },
    {Input::Rej,               {Established, LapSent, DreqSent},                   Timewait,    Action::Report        },
    {Input::RejStale,          kRequested,                                         Timewait,    Action::Report        },
    {Input::RejStale,          kBeforeReply,                                       Timewait,    Action::Report        },
    {Input::RejStale,          kReplied,                                           Timewait,    Action::Report        },
    {Input::RejStale,          kHasReply,                                          Timewait,    Action::Report        },
    {Input::RejStale,          {Established, LapSent, DreqSent},                   Timewait,    Action::Report        },
    {Input::Dreq,              kReplied,                                           DreqRcvd,    Action::Report        },
    {Input::Dreq,              kConnected,                                         DreqRcvd,    Action::Report        },
    {Input::Dreq,              DreqSent,                                           DreqRcvd,    Action::Report        },
    {Input::Dreq,              DreqRcvd,                                           kSame,       Action::Duplicate     },
    {Input::Dreq,              Timewait,                                           kSame,       Action::Repeat        },
    {Input::Drep,              {DreqSent, DreqRcvd},                               Timewait,    Action::Report        },
    {Input::Drep,              Timewait,                                           kSame,       Action::Duplicate     },
    {Input::Lap,               Established,                                        LapRcvd,     Action::Report        },
    {Input::Lap,               LapRcvd,                                            kSame,       Action::Duplicate     },
    {Input::Lap,               MraLapSent,                                         kSame,       Action::Repeat        },
    {Input::LapAnswered,       kConnected,                                         kSame,       Action::Repeat        },
    {Input::Apr,               {LapSent, MraLapRcvd},                              Established, Action::Report        },
    {Input::Apr,               Established,                                        kSame,       Action::Duplicate     },
    {Input::SidrRep,           SidrReqSent,                                        Idle,        Action::Report        },

    // Timers.
    {Input::RetriesExceeded,   kRequested,                                         Idle,        Action::Report        },
    {Input::RetriesExceeded,   kReplied,                                           Idle,        Action::Report        },
    {Input::RetriesExceeded,   {LapSent, MraLapRcvd},                              Established, Action::Report        },
    {Input::RetriesExceeded,   DreqSent,                                           Timewait,    Action::Report        },
    {Input::RetriesExceeded,   SidrReqSent,                                        Idle,        Action::Report        },
    {Input::TimewaitOver,      Timewait,                                           Idle,        Action::Report        },
});

struct Matrix {
  std::array<std::array<Transition, kInputCount>, kStateCount> cells{};
  bool has_conflict{};
};

[[nodiscard]] constexpr bool is_call(Input input) {
  return static_cast<unsigned>(input) < kCallCount;
}

[[nodiscard]] constexpr Matrix make_matrix() {
  Matrix matrix;
  for (unsigned s = 0; s < kStateCount; ++s) {
    const auto state = static_cast<State>(s);
    for (unsigned i = 0; i < kInputCount; ++i) {
      const auto input = static_cast<Input>(i);
      Transition& cell = matrix.cells[s][i];
      cell = {.next = state, .action = is_call(input) ? Action::Refuse : Action::Ignore};
      unsigned rows = 0;
      for (const Row& row : kRows) {
        if (row.input == input && row.states.has(state)) {
          cell = {.next = row.is_same ? state : row.next, .action = row.action};
          ++rows;
        }
      }
      matrix.has_conflict = matrix.has_conflict || rows > 1;
    }
  }
  return matrix;
}

constexpr Matrix kMatrix = make_matrix();

[[nodiscard]] constexpr Transition at(unsigned state, Input input) {
  return kMatrix.cells[state][static_cast<unsigned>(input)];
}

/// States reachable from the given ones; ids also start in ReqRcvd and SidrReqRcvd.
[[nodiscard]] constexpr std::uint32_t reachable(std::uint32_t from) {
  for (unsigned round = 0; round < kStateCount; ++round) {
    for (unsigned s = 0; s < kStateCount; ++s) {
      if ((from >> s & 1U) != 0) {
        for (const Transition& cell : kMatrix.cells[s]) {
          from |= 1U << static_cast<unsigned>(cell.next);
        }
      }
    }
  }
  return from;
}

[[nodiscard]] constexpr std::uint32_t bit(State state) {
  return 1U << static_cast<unsigned>(state);
}

[[nodiscard]] constexpr bool all_states(auto holds) {
  for (unsigned s = 0; s < kStateCount; ++s) {
    if (!holds(s, static_cast<State>(s))) {
      return false;
    }
  }
  return true;
}

[[nodiscard]] constexpr bool is_of_destroy(Action action) { return action >= Action::Leave; }

static_assert(!kMatrix.has_conflict, "one row at most says what happens");
static_assert(reachable(bit(Idle) | bit(ReqRcvd) | bit(SidrReqRcvd)) == (1U << kStateCount) - 1,
              "every state can be got into");
static_assert(all_states([](unsigned s, State state) {
                return state == Listen || (reachable(1U << s) & bit(Idle)) != 0;
              }),
              "and out of");
static_assert(all_states([](unsigned s, State state) {
                return awaits_answer(state) ==
                       (at(s, Input::RetriesExceeded).action == Action::Report);
              }),
              "who waits for an answer gives up some time, and nobody else");
static_assert(all_states([](unsigned s, State) {
                return is_of_destroy(at(s, Input::Destroy).action);
              }),
              "every id can be destroyed");
static_assert(all_states([](unsigned s, State) {
                const State next = at(s, Input::Destroy).next;
                return next == Idle || next == DreqSent || next == Timewait;
              }),
              "what is left of a destroyed id ends by itself");
static_assert(all_states([](unsigned s, State state) {
                return is_established(state) ==
                       (at(s, Input::NotifyEstablished).action == Action::AlreadyDone);
              }),
              "loading an alternate path does not end a connection");
static_assert(all_states([](unsigned s, State) {
                for (unsigned i = 0; i < kInputCount; ++i) {
                  const Transition cell = kMatrix.cells[s][i];
                  const bool moves = cell.action == Action::Do || cell.action == Action::Report ||
                                     is_of_destroy(cell.action);
                  if (!moves && cell.next != static_cast<State>(s)) {
                    return false;
                  }
                }
                return true;
              }),
              "what is refused, ignored or known already changes no state");
static_assert(all_states([](unsigned s, State state) {
                return !kLapStates.has(state) || at(s, Input::SendDreq).next == DreqSent;
              }),
              "a pending LAP is given up for a DREQ");

}  // namespace

Transition transition(State state, Input input) {
  return kMatrix.cells[static_cast<std::size_t>(state)][static_cast<std::size_t>(input)];
}

std::string_view name_of(Input input) {
  static constexpr std::array<std::string_view, kInputCount> kNames = {"listen",
                                                                       "send_req",
                                                                       "send_rep",
                                                                       "send_rtu",
                                                                       "send_mra",
                                                                       "send_rej",
                                                                       "establish",
                                                                       "path migrated",
                                                                       "send_lap",
                                                                       "send_apr",
                                                                       "send_dreq",
                                                                       "send_drep",
                                                                       "send_sidr_req",
                                                                       "send_sidr_rep",
                                                                       "destroy",
                                                                       "REQ",
                                                                       "REQ of peer",
                                                                       "MRA of REQ",
                                                                       "MRA of REP",
                                                                       "MRA of LAP",
                                                                       "REP",
                                                                       "RTU",
                                                                       "REJ",
                                                                       "REJ stale",
                                                                       "DREQ",
                                                                       "DREP",
                                                                       "LAP",
                                                                       "LAP answered",
                                                                       "APR",
                                                                       "SIDR_REP",
                                                                       "retries exceeded",
                                                                       "time-wait over"};
  return kNames[static_cast<std::size_t>(input)];
}

std::string_view name_of(Action action) {
  static constexpr auto kNames = std::to_array<std::string_view>(
      {"refuse", "already done", "do", "ignore", "duplicate", "extend", "repeat answer",
       "reject as stale", "report", "leave", "REJ timeout", "REJ consumer", "DREQ", "DREP",
       "SIDR_REP rejected"});
  return kNames[static_cast<std::size_t>(action)];
}

std::string matrix_text() {
  std::string text;
  for (unsigned s = 0; s < kStateCount; ++s) {
    for (unsigned i = 0; i < kInputCount; ++i) {
      const Transition cell = kMatrix.cells[s][i];
      if (cell.action != Action::Refuse && cell.action != Action::Ignore) {
        text +=
            fmt::format("{:<13}  {:<16}  -> {:<13}  {}\n", name_of(static_cast<State>(s)),
                        name_of(static_cast<Input>(i)), name_of(cell.next), name_of(cell.action));
      }
    }
  }
  return text;
}

std::string graph_text() {
  std::map<std::pair<unsigned, unsigned>, std::string> edges;
  for (unsigned s = 0; s < kStateCount; ++s) {
    for (unsigned i = 0; i < kInputCount; ++i) {
      const auto next = static_cast<unsigned>(kMatrix.cells[s][i].next);
      if (next != s) {
        std::string& label = edges[{s, next}];
        label += label.empty() ? "" : "\\n";
        label += name_of(static_cast<Input>(i));
      }
    }
  }
  std::string text = "digraph cm {\n";
  for (const auto& [ends, label] : edges) {
    text += fmt::format("  {} -> {} [label=\"{}\"];\n", name_of(static_cast<State>(ends.first)),
                        name_of(static_cast<State>(ends.second)), label);
  }
  return text + "}\n";
}

}  // namespace weft::cm
