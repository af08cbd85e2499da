#include "ulp/srp/path_state.h"

#include <array>
#include <utility>

namespace weft::srp {
namespace {

struct Row {
  PathState state{};
  PathEvent event{};
  PathState next{};
  PathAction action{};
};

[[nodiscard]] consteval auto make_rows() {
  using enum PathState;
  using E = PathEvent;
  using A = PathAction;
  return std::to_array<Row>({
      {Connecting, E::ConnectionStale, Connecting, A::ArmReconnect},
      {Connecting, E::ReconnectDue,    Connecting, A::Connect     },
      {Blocked,    E::ConnectionStale, Blocked,    A::ArmReconnect},
      {FailFast,   E::ConnectionStale, FailFast,   A::ArmReconnect},
      {Idle,       E::Start,           Connecting, A::Connect     },
      {Idle,       E::Stop,            Lost,       A::GiveUp      },
      {Connecting, E::LoginDone,       Live,       A::Resume      },
      {Connecting, E::LoginFailed,     Idle,       A::Report      },
      {Connecting, E::ChannelLost,     Idle,       A::Report      },
      {Connecting, E::Stop,            Lost,       A::GiveUp      },
      {Live,       E::ChannelLost,     Blocked,    A::Block       },
      {Live,       E::Stop,            Lost,       A::GiveUp      },
      {Blocked,    E::ReconnectDue,    Blocked,    A::Connect     },
      {Blocked,    E::LoginDone,       Live,       A::Resume      },
      {Blocked,    E::LoginFailed,     Blocked,    A::ArmReconnect},
      {Blocked,    E::ChannelLost,     Blocked,    A::ArmReconnect},
      {Blocked,    E::FastFailDue,     FailFast,   A::FailWaiting },
      {Blocked,    E::DevLossDue,      Lost,       A::GiveUp      },
      {Blocked,    E::Stop,            Lost,       A::GiveUp      },
      {FailFast,   E::ReconnectDue,    FailFast,   A::Connect     },
      {FailFast,   E::LoginDone,       Live,       A::Resume      },
      {FailFast,   E::LoginFailed,     FailFast,   A::ArmReconnect},
      {FailFast,   E::ChannelLost,     FailFast,   A::ArmReconnect},
      {FailFast,   E::DevLossDue,      Lost,       A::GiveUp      },
      {FailFast,   E::Stop,            Lost,       A::GiveUp      },
  });
}
constexpr auto kRows = make_rows();

[[nodiscard]] constexpr PathTransition look_up(PathState state, PathEvent event) {
  for (const Row& row : kRows) {
    if (row.state == state && row.event == event) {
      return {.next = row.next, .action = row.action};
    }
  }
  return {.next = state, .action = PathAction::Ignore};
}

[[nodiscard]] constexpr bool holds_for_all_states(auto holds) {
  for (unsigned s = 0; s < kPathStates; ++s) {
    if (!holds(static_cast<PathState>(s))) {
      return false;
    }
  }
  return true;
}

static_assert(holds_for_all_states([](PathState state) {
                return look_up(state, PathEvent::Stop).next == PathState::Lost;
              }),
              "every path can be stopped");
static_assert(holds_for_all_states([](PathState state) {
                return (look_up(state, PathEvent::DevLossDue).next == PathState::Lost) ==
                       (state == PathState::Blocked || state == PathState::FailFast ||
                        state == PathState::Lost);
              }),
              "only a path that is down is given up by time");
static_assert(holds_for_all_states([](PathState state) {
                return state == PathState::Live ||
                       (look_up(state, PathEvent::LoginDone).next == PathState::Live) ==
                           (state == PathState::Connecting || state == PathState::Blocked ||
                            state == PathState::FailFast);
              }),
              "who waits for a login becomes live by it");

}  // namespace

PathTransition transition(PathState state, PathEvent event) { return look_up(state, event); }

std::string_view name_of(PathState state) {
  static constexpr std::array<std::string_view, kPathStates> kNames{
      "idle", "connecting", "live", "blocked", "fail-fast", "lost"};
  return kNames[std::to_underlying(state)];
}

}  // namespace weft::srp
