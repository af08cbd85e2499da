#include "ulp/iser/connection_state.h"

#include <array>
#include <cstddef>
#include <utility>

namespace weft::iser {
namespace {

struct Row {
  ConnectionState state{};
  ConnectionEvent event{};
  ConnectionState next{};
  ConnectionAction action{};
};

[[nodiscard]] consteval auto make_rows() {
  using enum ConnectionState;
  using E = ConnectionEvent;
  using A = ConnectionAction;
  return std::to_array<Row>({
      {Init,        E::Connect,         Pending,     A::ResolveAddress},
      {Init,        E::DeviceRemoved,   Down,        A::Destroy       },
      {Init,        E::Terminate,       Down,        A::FreeQp        },
      {Pending,     E::AddressResolved, Pending,     A::ResolveRoute  },
      {Pending,     E::RouteResolved,   Pending,     A::SendRequest   },
      {Pending,     E::Established,     Up,          A::Complete      },
      {Pending,     E::ConnectFailed,   Terminating, A::Drain         },
      {Pending,     E::Disconnected,    Terminating, A::Drain         },
      {Pending,     E::DeviceRemoved,   Terminating, A::Drain         },
      {Pending,     E::Terminate,       Terminating, A::Disconnect    },
      {Up,          E::ConnectFailed,   Terminating, A::Drain         },
      {Up,          E::Disconnected,    Terminating, A::Drain         },
      {Up,          E::DeviceRemoved,   Terminating, A::Drain         },
      {Up,          E::Terminate,       Terminating, A::Disconnect    },
      {Terminating, E::Drained,         Down,        A::FreeQp        },
      {Down,        E::DeviceRemoved,   Down,        A::Destroy       },
  });
}
constexpr auto kRows = make_rows();

[[nodiscard]] constexpr ConnectionTransition look_up(ConnectionState state, ConnectionEvent event) {
  for (const Row& row : kRows) {
    if (row.state == state && row.event == event) {
      return {.next = row.next, .action = row.action};
    }
  }
  return {.next = state, .action = ConnectionAction::Ignore};
}

[[nodiscard]] constexpr bool holds_for_all(auto holds) {
  for (unsigned s = 0; s < kConnectionStates; ++s) {
    for (unsigned e = 0; e < kConnectionEvents; ++e) {
      const auto state = static_cast<ConnectionState>(s);
      const auto event = static_cast<ConnectionEvent>(e);
      if (!holds(state, event, look_up(state, event))) {
        return false;
      }
    }
  }
  return true;
}

[[nodiscard]] constexpr bool rows_are_unique() {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (kRows[i].state == kRows[j].state && kRows[i].event == kRows[j].event) {
        return false;
      }
    }
  }
  return true;
}

using State = ConnectionState;
using Event = ConnectionEvent;
using Action = ConnectionAction;
static_assert(rows_are_unique());
static_assert(holds_for_all([](State state, Event, ConnectionTransition to) {
                return to.next >= state;
              }),
              "states only go forward");
static_assert(holds_for_all([](State state, Event, ConnectionTransition to) {
                const bool drains = to.action == Action::Drain || to.action == Action::Disconnect;
                return drains == (state != to.next && to.next == State::Terminating);
              }),
              "a connection is drained once, and whoever ends it posts the markers");
static_assert(holds_for_all([](State state, Event event, ConnectionTransition to) {
                return to.next != State::Down || state == State::Down || state == State::Init ||
                       event == Event::Drained;
              }),
              "only what has nothing under way is down");
static_assert(holds_for_all([](State state, Event event, ConnectionTransition to) {
                return event != Event::Terminate || state >= State::Terminating ||
                       to.next >= State::Terminating;
              }),
              "every connection can be ended");

}  // namespace

ConnectionTransition transition(ConnectionState state, ConnectionEvent event) {
  return look_up(state, event);
}

std::string_view name_of(ConnectionState state) {
  static constexpr std::array<std::string_view, kConnectionStates> kNames{"INIT", "PENDING", "UP",
                                                                          "TERMINATING", "DOWN"};
  return kNames[std::to_underlying(state)];
}

}  // namespace weft::iser
