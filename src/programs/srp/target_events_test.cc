#include "programs/srp/target_events.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::programs::srp {
namespace {

using enum verbs::AsyncEventType;

[[nodiscard]] std::set<verbs::AsyncEventType> events_of(TargetEventAction action) {
  std::set<verbs::AsyncEventType> found;
  for (std::uint32_t number = 0; const auto event = verbs::async_event_of(number); ++number) {
    if (action_of(*event) == action) {
      found.insert(*event);
    }
  }
  return found;
}

TEST(SrpTargetEvents, EveryOneHasItsAction) {
  EXPECT_EQ(kTargetEventActions.size(), static_cast<std::size_t>(WqFatal) + 1);
}

TEST(SrpTargetEvents, ThoseThatChangeAPortRefreshIt) {  // R-SRPT-3
  EXPECT_EQ(events_of(TargetEventAction::RefreshPort),
            (std::set{PortActive, LidChange, PKeyChange, SmChange, ClientReregister, GidChange}));
}

TEST(SrpTargetEvents, OnlyADeviceThatHasGoneIsLeft) {  // R-SRPT-2
  EXPECT_EQ(events_of(TargetEventAction::Leave), std::set{DeviceFatal});
}

TEST(SrpTargetEvents, OfAQpEstablishOrCloseItsChannel) {  // R-SRPT-3
  EXPECT_EQ(events_of(TargetEventAction::Establish), std::set{CommunicationEstablished});
  EXPECT_EQ(events_of(TargetEventAction::Close),
            (std::set{QpFatal, QpRequestError, QpAccessError}));
  EXPECT_EQ(events_of(TargetEventAction::LastReceive), std::set{QpLastWqeReached});
}

}  // namespace
}  // namespace weft::programs::srp
