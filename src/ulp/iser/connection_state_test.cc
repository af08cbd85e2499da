#include "ulp/iser/connection_state.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <utility>

namespace weft::iser {
namespace {

using Action = ConnectionAction;
using Event = ConnectionEvent;
using State = ConnectionState;

TEST(IserConnectionState, GoesThroughTheLifeOfAConnection) {
  State state = State::Init;
  for (const auto& [event, next, action] : {
           std::tuple{Event::Connect,         State::Pending,     Action::ResolveAddress},
           std::tuple{Event::AddressResolved, State::Pending,     Action::ResolveRoute  },
           std::tuple{Event::RouteResolved,   State::Pending,     Action::SendRequest   },
           std::tuple{Event::Established,     State::Up,          Action::Complete      },
           std::tuple{Event::Terminate,       State::Terminating, Action::Disconnect    },
           std::tuple{Event::Disconnected,    State::Terminating, Action::Ignore        },
           std::tuple{Event::Drained,         State::Down,        Action::FreeQp        }
  }) {
    const ConnectionTransition expected{next, action};
    EXPECT_EQ(transition(state, event), expected) << name_of(state);
    state = next;
  }
}

TEST(IserConnectionState, EveryEventOfRdmaCmEndsAConnectionThatIsUpOrBecomesSo) {
  for (const State state : {State::Pending, State::Up}) {
    for (const Event event : {Event::ConnectFailed, Event::Disconnected, Event::DeviceRemoved}) {
      const ConnectionTransition expected{State::Terminating, Action::Drain};
      EXPECT_EQ(transition(state, event), expected);
    }
  }
}

TEST(IserConnectionState, NothingLeadsBackFromAnyState) {
  for (unsigned s = 0; s < kConnectionStates; ++s) {
    for (unsigned e = 0; e < kConnectionEvents; ++e) {
      const auto state = static_cast<State>(s);
      EXPECT_GE(transition(state, static_cast<Event>(e)).next, state);
    }
  }
}

TEST(IserConnectionState, HasNamesOfItsOwn) {
  std::set<std::string_view> names;
  for (unsigned s = 0; s < kConnectionStates; ++s) {
    names.insert(name_of(static_cast<State>(s)));
  }
  EXPECT_EQ(names.size(), kConnectionStates);
}

}  // namespace
}  // namespace weft::iser
