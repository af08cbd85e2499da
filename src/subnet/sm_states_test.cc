#include "subnet/sm_states.h"

#include <gtest/gtest.h>

#include <array>

namespace weft::subnet {
namespace {

using enum wire::SmState;

TEST(SmStates, OnlyTheMasterOrItsDeathMakesAStandbyMove) {
  EXPECT_EQ(transition(Standby, SmEvent::MasterLost)->to, Discovering);
  EXPECT_EQ(transition(Standby, SmEvent::HandoverReceived)->to, Master);
  EXPECT_EQ(transition(Standby, SmEvent::DisableReceived)->to, NotActive);
  EXPECT_FALSE(transition(Standby, SmEvent::FoundNone));
  EXPECT_FALSE(transition(Standby, SmEvent::Acknowledged));
}

TEST(SmStates, AMasterIsNeitherDisabledNorPutOnStandbyByOthers) {
  for (const SmEvent event :
       {SmEvent::DisableReceived, SmEvent::StandbyReceived, SmEvent::DiscoverReceived}) {
    EXPECT_FALSE(transition(Master, event));
  }
  EXPECT_EQ(transition(Master, SmEvent::Acknowledged)->to, Standby);
}

TEST(SmStates, WhoIsNotActiveWaitsToBeAsked) {
  EXPECT_EQ(transition(NotActive, SmEvent::StandbyReceived)->to, Standby);
  EXPECT_FALSE(transition(NotActive, SmEvent::HandoverReceived));
  EXPECT_FALSE(transition(NotActive, SmEvent::MasterLost));
}

TEST(SmStates, PriorityComesBeforeTheLowerGuid) {
  const wire::SmInfo low{.guid = Guid{1}, .priority = 1};
  const wire::SmInfo high{.guid = Guid{2}, .priority = 2};
  const wire::SmInfo later{.guid = Guid{3}, .priority = 2};
  EXPECT_TRUE(takes_precedence(high, low));
  EXPECT_FALSE(takes_precedence(low, high));
  EXPECT_TRUE(takes_precedence(high, later));
  EXPECT_FALSE(takes_precedence(high, high));
}

TEST(SmStates, ControlsAreNumberedAsTheSpecificationDoes) {
  EXPECT_EQ(event_of(1), SmEvent::HandoverReceived);
  EXPECT_EQ(event_of(2), SmEvent::Acknowledged);
  EXPECT_EQ(event_of(3), SmEvent::DisableReceived);
  EXPECT_EQ(event_of(4), SmEvent::StandbyReceived);
  EXPECT_EQ(event_of(5), SmEvent::DiscoverReceived);
  EXPECT_FALSE(event_of(0));
  EXPECT_FALSE(event_of(6));
}

}  // namespace
}  // namespace weft::subnet
