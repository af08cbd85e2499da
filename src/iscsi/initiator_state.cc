#include "iscsi/initiator_state.h"

#include <array>
#include <utility>

namespace weft::iscsi {
namespace {

struct Row {
  SessionState from{};
  SessionEvent event{};
  SessionState next{};
  SessionAction action{};
};

using enum SessionState;
using enum SessionEvent;
using enum SessionAction;

// What is missing changes nothing.
// clang-format off
constexpr auto kRows = std::to_array<Row>({
    {Idle,       Start,          Connecting, Connect     },
    {Connecting, LoginDone,      Live,       Resume      },
    {Connecting, LoginFailed,    Idle,       Report      },
    {Connecting, ConnectionLost, Idle,       Report      },
    {Connecting, Stop,           Idle,       End         },
    {Live,       ConnectionLost, Blocked,    Block       },
    {Live,       Suspended,      Blocked,    Suspend     },
    {Live,       Stop,           LoggingOut, LogOut      },
    {Blocked,    LoginDone,      Live,       Resume      },
    {Blocked,    LoginFailed,    Blocked,    ArmReconnect},
    {Blocked,    ConnectionLost, Blocked,    ArmReconnect},
    {Blocked,    ReconnectDue,   Blocked,    Connect     },
    {Blocked,    FastFailDue,    FailFast,   FailWaiting },
    {Blocked,    DevLossDue,     Lost,       GiveUp      },
    {Blocked,    Stop,           Idle,       End         },
    {FailFast,   LoginDone,      Live,       Resume      },
    {FailFast,   LoginFailed,    FailFast,   ArmReconnect},
    {FailFast,   ConnectionLost, FailFast,   ArmReconnect},
    {FailFast,   ReconnectDue,   FailFast,   Connect     },
    {FailFast,   DevLossDue,     Lost,       GiveUp      },
    {FailFast,   Stop,           Idle,       End         },
    {Lost,       Start,          Connecting, Connect     },
    {Lost,       Stop,           Idle,       End         },
    {LoggingOut, ConnectionLost, Idle,       End         },
});
// clang-format on

[[nodiscard]] consteval bool rows_are_unique() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (kRows[i].from == kRows[j].from && kRows[i].event == kRows[j].event) {
        return false;
      }
    }
  }
  return true;
}
static_assert(rows_are_unique());

// Whatever the state, a user who stops the session ends it, perhaps after a logout.
[[nodiscard]] consteval bool every_state_can_be_stopped() {
  for (unsigned state = 1; state < kSessionStates; ++state) {
    bool ends = static_cast<SessionState>(state) == LoggingOut;
    for (const Row& row : kRows) {
      ends = ends || (row.from == static_cast<SessionState>(state) && row.event == Stop);
    }
    if (!ends) {
      return false;
    }
  }
  return true;
}
static_assert(every_state_can_be_stopped());

}  // namespace

SessionTransition transition(SessionState state, SessionEvent event) {
  for (const Row& row : kRows) {
    if (row.from == state && row.event == event) {
      return {row.next, row.action};
    }
  }
  return {state, Ignore};
}

std::string_view name_of(SessionState state) {
  constexpr std::array<std::string_view, kSessionStates> kNames{
      "idle", "connecting", "live", "blocked", "failing fast", "lost", "logging out"};
  return kNames[std::to_underlying(state)];
}

}  // namespace weft::iscsi
