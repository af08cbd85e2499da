#include "iscsi/initiator_state.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace weft::iscsi {
namespace {

TEST(SessionState, EveryOneHasANameAndIsReached) {
  std::set<std::string_view> names;
  std::set<SessionState> reached{SessionState::Idle};
  for (unsigned state = 0; state < kSessionStates; ++state) {
    names.insert(name_of(static_cast<SessionState>(state)));
    for (unsigned event = 0; event < kSessionEvents; ++event) {
      reached.insert(
          transition(static_cast<SessionState>(state), static_cast<SessionEvent>(event)).next);
    }
  }
  EXPECT_EQ(names.size(), kSessionStates);
  EXPECT_EQ(reached.size(), kSessionStates);
}

TEST(SessionState, OnlyWhatIsLostOrIdleCanBeStarted) {
  for (unsigned state = 0; state < kSessionStates; ++state) {
    const auto from = static_cast<SessionState>(state);
    const bool starts = from == SessionState::Idle || from == SessionState::Lost;
    EXPECT_EQ(transition(from, SessionEvent::Start).action == SessionAction::Connect, starts);
  }
}

}  // namespace
}  // namespace weft::iscsi
