#include "sriov/communication_ids.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <set>

namespace weft::sriov {
namespace {

constexpr Instant kStart{};
constexpr FunctionId kA{1};
constexpr FunctionId kB{2};

TEST(SriovCommunicationIds, EqualIdsOfFunctionsDifferOnTheWire) {  // R-SRI-7
  CommunicationIds ids{{}, 0xFFFF'FFFE};
  std::set<std::uint32_t> on_wire;
  for (std::uint16_t function = 0; function < 64; ++function) {
    const auto id = ids.create(FunctionId{function}, 7, kStart);
    ASSERT_TRUE(id.has_value());
    EXPECT_NE((*id)->physical, 0U);  // the cycle passes it over
    on_wire.insert((*id)->physical);
    EXPECT_EQ(ids.find_physical((*id)->physical)->function, FunctionId{function});
    EXPECT_EQ(ids.find(FunctionId{function}, 7), *id);
  }
  EXPECT_EQ(on_wire.size(), 64U);
  EXPECT_EQ(ids.find(kA, 8), nullptr);
  ids.check_invariants();
}

TEST(SriovCommunicationIds, AreKeptForTimeWaitAndThenFree) {
  CommunicationIds ids{{}, 0};
  CommunicationId* id = ids.create(kA, 7, kStart).value();
  ids.establish(*id);
  const std::uint32_t physical = id->physical;
  EXPECT_EQ(ids.poll_deadline(), Instant::never());
  ids.schedule_release(*id, kStart);
  ids.handle_timeout(kStart + Duration::seconds(29));
  EXPECT_NE(ids.find_physical(physical), nullptr);
  ids.schedule_release(*ids.find_physical(physical), kStart + Duration::seconds(29));  // repeated
  ids.handle_timeout(kStart + Duration::seconds(30));
  EXPECT_NE(ids.find_physical(physical), nullptr);
  EXPECT_EQ(ids.poll_deadline(), kStart + Duration::seconds(59));
  ids.handle_timeout(kStart + Duration::seconds(59));
  EXPECT_EQ(ids.find_physical(physical), nullptr);
  EXPECT_EQ(ids.size(), 0U);
  ids.check_invariants();
}

TEST(SriovCommunicationIds, AnIdInTimeWaitIsNotUsedAgain) {
  CommunicationIds ids{{}, 0};
  CommunicationId* old = ids.create(kA, 7, kStart).value();
  ids.schedule_release(*old, kStart);
  const CommunicationId* anew = ids.create(kA, 7, kStart).value();
  EXPECT_NE(anew->physical, old->physical);
  EXPECT_EQ(ids.find(kA, 7), anew);
  ids.handle_timeout(kStart + Duration::seconds(30));
  EXPECT_EQ(ids.find(kA, 7), anew);  // the end of the old one leaves it alone
  ids.check_invariants();
}

TEST(SriovCommunicationIds, AnExchangeWithoutAnAnswerEnds) {
  CommunicationIds ids{{}, 0};
  EXPECT_TRUE(ids.create(kA, 7, kStart).has_value());
  ids.handle_timeout(kStart + Duration::seconds(299));
  EXPECT_EQ(ids.size(), 1U);
  ids.handle_timeout(kStart + Duration::seconds(300));
  EXPECT_EQ(ids.size(), 0U);
}

TEST(SriovCommunicationIds, EachFunctionHasALimit) {
  CommunicationIds ids{{.of_function = 2}, 0};
  EXPECT_TRUE(ids.create(kA, 1, kStart).has_value());
  EXPECT_TRUE(ids.create(kA, 2, kStart).has_value());
  EXPECT_EQ(ids.create(kA, 3, kStart), std::unexpected(Reason::TooManyConnections));
  EXPECT_TRUE(ids.create(kB, 3, kStart).has_value());
}

TEST(SriovCommunicationIds, OfAFunctionThatIsGoneEndAfterTheDelay) {
  CommunicationIds ids{{}, 0};
  CommunicationId* id = ids.create(kA, 1, kStart).value();
  ids.establish(*id);
  CommunicationId* other = ids.create(kB, 1, kStart).value();
  ids.establish(*other);
  ids.orphan(kA, kStart);
  EXPECT_TRUE(id->is_orphan);
  EXPECT_FALSE(other->is_closing);
  ids.handle_timeout(kStart + Duration::seconds(30));
  EXPECT_EQ(ids.size(), 1U);
  EXPECT_EQ(ids.find(kB, 1), other);
  ids.check_invariants();
}

TEST(SriovCommunicationIds, MoveToAnotherPortWithTheirFunction) {
  CommunicationIds from{{}, 100};
  CommunicationIds to{{}, 100};
  CommunicationId* id = from.create(kA, 1, kStart).value();
  from.establish(*id);
  const auto moving = from.live_of(kA);
  ASSERT_EQ(moving.size(), 1U);
  EXPECT_TRUE(to.adopt(moving[0]));
  EXPECT_EQ(to.find(kA, 1)->physical, id->physical);
  EXPECT_FALSE(to.adopt(moving[0]));  // in use
  to.check_invariants();
}

}  // namespace
}  // namespace weft::sriov
