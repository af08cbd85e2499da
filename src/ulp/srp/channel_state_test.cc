#include "ulp/srp/channel_state.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>
#include <utility>

namespace weft::srp {
namespace {

TEST(SrpChannelState, GoesThroughTheLifeOfAConnection) {
  ChannelState state = ChannelState::Connecting;
  for (const auto& [event, next] : {
           std::pair{ChannelEvent::Rtu,           ChannelState::Live         },
           std::pair{ChannelEvent::Dreq,          ChannelState::Disconnecting},
           std::pair{ChannelEvent::TimewaitExit,  ChannelState::Draining     },
           std::pair{ChannelEvent::MarkerFlushed, ChannelState::Disconnected }
  }) {
    state = transition(state, event).next;
    EXPECT_EQ(state, next);
  }
}

TEST(SrpChannelState, NothingLeadsBackFromAnyState) {
  for (unsigned s = 0; s < kChannelStates; ++s) {
    for (unsigned e = 0; e < kChannelEvents; ++e) {
      const auto state = static_cast<ChannelState>(s);
      EXPECT_GE(transition(state, static_cast<ChannelEvent>(e)).next, state);
    }
  }
  const ChannelTransition nothing{ChannelState::Disconnecting, ChannelAction::Ignore};
  EXPECT_EQ(transition(ChannelState::Disconnecting, ChannelEvent::Rtu), nothing);
}

TEST(SrpChannelState, HasNamesOfItsOwn) {
  std::set<std::string_view> names;
  for (unsigned s = 0; s < kChannelStates; ++s) {
    names.insert(name_of(static_cast<ChannelState>(s)));
  }
  EXPECT_EQ(names.size(), kChannelStates);
}

}  // namespace
}  // namespace weft::srp
