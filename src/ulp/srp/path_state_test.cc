#include "ulp/srp/path_state.h"

#include <gtest/gtest.h>

#include <set>
#include <string_view>

namespace weft::srp {
namespace {

TEST(SrpPathState, ALostPathComesBackUntilItIsGivenUp) {
  using enum PathState;
  EXPECT_EQ(transition(Live, PathEvent::ChannelLost).next, Blocked);
  EXPECT_EQ(transition(Blocked, PathEvent::FastFailDue).next, FailFast);
  EXPECT_EQ(transition(FailFast, PathEvent::LoginDone).next, Live);
  EXPECT_EQ(transition(FailFast, PathEvent::DevLossDue).next, Lost);
  EXPECT_EQ(transition(Lost, PathEvent::LoginDone).next, Lost);
}

TEST(SrpPathState, HasNamesOfItsOwn) {
  std::set<std::string_view> names;
  for (unsigned s = 0; s < kPathStates; ++s) {
    names.insert(name_of(static_cast<PathState>(s)));
  }
  EXPECT_EQ(names.size(), kPathStates);
}

}  // namespace
}  // namespace weft::srp
