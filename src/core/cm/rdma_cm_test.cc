#include "core/cm/rdma_cm.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::core {
namespace {

TEST(RdmaCm, EventsHaveDifferentNames) {
  std::set<std::string_view> names;
  constexpr auto kLast = static_cast<std::uint32_t>(verbs::RdmaCmEventType::User);
  for (std::uint32_t number = 0; number <= kLast; ++number) {
    EXPECT_TRUE(names.insert(name_of(*verbs::rdma_cm_event_of(number))).second);
  }
  EXPECT_FALSE(names.contains("unknown event"));
}

// IBTA vol 1 §12.6.7.2: only reason 28 comes from the peer's user.
TEST(RdmaCm, OnlyAConsumersRejectHasDataOfTheUser) {
  EXPECT_TRUE(is_consumer_reject({.type = verbs::RdmaCmEventType::Rejected, .status = 28}));
  EXPECT_FALSE(is_consumer_reject({.type = verbs::RdmaCmEventType::Rejected, .status = 8}));
  EXPECT_FALSE(is_consumer_reject({.type = verbs::RdmaCmEventType::Unreachable, .status = 28}));
}

}  // namespace
}  // namespace weft::core
