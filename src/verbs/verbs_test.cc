#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string_view>

#include "verbs/access_flags.h"
#include "verbs/address_vector.h"
#include "verbs/async_event.h"
#include "verbs/completion.h"
#include "verbs/connection_parameters.h"
#include "verbs/mtu.h"
#include "verbs/path.h"
#include "verbs/port_attributes.h"
#include "verbs/port_policy.h"
#include "verbs/port_state.h"
#include "verbs/qp_attributes.h"
#include "verbs/qp_state.h"
#include "verbs/qp_type.h"
#include "verbs/rdma_cm.h"
#include "verbs/work_request.h"

namespace weft::verbs {
namespace {

constexpr std::uint32_t kNumbersTried = 1'000;

/// Tries a conversion from numbers: exactly `valid` convert, each to the value of that number, and
/// large numbers that end in a valid octet do not.
void expect_numbers(const std::set<std::uint32_t>& valid, auto convert) {
  for (std::uint32_t number = 0; number < kNumbersTried; ++number) {
    const auto value = convert(number);
    EXPECT_EQ(value.has_value(), valid.contains(number)) << number;
    if (value) {
      EXPECT_EQ(static_cast<std::uint32_t>(*value), number);
    }
  }
  EXPECT_FALSE(convert(0xFFFF'FFFF).has_value());
  EXPECT_FALSE(convert(0x100 + *valid.rbegin()).has_value());
}

TEST(VerbsNouns, TakesTheNumbersThatTheVerbsApiHasAndNoOthers) {
  expect_numbers({2, 3, 4, 9, 10}, qp_type_of);
  expect_numbers({0, 1, 2, 3, 4, 5, 6}, qp_state_of);
  expect_numbers({0, 1, 2}, migration_state_of);
  expect_numbers({1, 2, 3, 4, 5}, mtu_of);
  expect_numbers({1, 2, 3, 4}, port_state_of);
  expect_numbers({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18},
                 async_event_of);
  expect_numbers({0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18},
                 rdma_cm_event_of);
  expect_numbers({1, 2, 3, 4}, rdma_cm_option_of);
}

TEST(VerbsNouns, MigrationEventsHaveTheNumbersOfTheVerbsApi) {
  EXPECT_EQ(static_cast<int>(AsyncEventType::CommunicationEstablished), 4);
  EXPECT_EQ(static_cast<int>(AsyncEventType::PathMigrated), 6);
  EXPECT_EQ(static_cast<int>(AsyncEventType::DeviceFatal), 8);
}

TEST(VerbsNouns, NamesEveryAttributeOfAQpDifferently) {
  std::set<std::string_view> names;
  unsigned named = 0;
  for (unsigned bit = 0; bit < 32; ++bit) {
    const auto name = name_of(static_cast<QpAttribute>(1U << bit));
    if (name != "an unknown attribute") {
      ++named;
      names.insert(name);
    }
  }
  EXPECT_EQ(named, 22U);
  EXPECT_EQ(names.size(), 22U);
}

TEST(VerbsNouns, NamesStatesAsTheSpecificationDoes) {
  EXPECT_EQ(name_of(QpState::Rtr), "RTR");
  EXPECT_EQ(name_of(QpType::XrcTarget), "XRC target");
  EXPECT_EQ(name_of(MigrationState::Rearm), "REARM");
  EXPECT_EQ(name_of(PortState::Initialize), "Initialize");
}

TEST(VerbsNouns, AMessageHasAPacketForEachMtuAndAtLeastOne) {
  for (const Mtu mtu : {Mtu::Mtu256, Mtu::Mtu512, Mtu::Mtu1024, Mtu::Mtu2048, Mtu::Mtu4096}) {
    EXPECT_EQ(packets(0, mtu), 1U);
    EXPECT_EQ(packets(bytes(mtu), mtu), 1U);
    EXPECT_EQ(packets(bytes(mtu) + 1, mtu), 2U);
    EXPECT_EQ(packets(10 * bytes(mtu), mtu), 10U);
  }
  EXPECT_EQ(bytes(Mtu::Mtu2048), 2048U);
}

TEST(VerbsNouns, AReversedPathIsThatOfTheOtherSide) {
  const Path path{
      .sgid = Gid{kDefaultGidPrefix, Guid{1}},
      .dgid = Gid{kDefaultGidPrefix, Guid{2}},
      .slid = Lid{3},
      .dlid = Lid{4},
      .sl = ServiceLevel{5}
  };
  const Path reversed = path.reversed();
  EXPECT_EQ(reversed.sgid, path.dgid);
  EXPECT_EQ(reversed.dgid, path.sgid);
  EXPECT_EQ(reversed.slid, path.dlid);
  EXPECT_EQ(reversed.dlid, path.slid);
  EXPECT_EQ(reversed.sl, path.sl);
  EXPECT_EQ(reversed.reversed(), path);
}

TEST(VerbsNouns, ASourceLidHasAsManyPathBitsAsTheLmcSays) {
  const PortAttributes port{.lid = Lid{8}, .lmc = 2, .gids = {}, .pkeys = {PKey{0x8001}}};
  EXPECT_EQ(port.source_lid(3), Lid{11});
  EXPECT_EQ(port.source_lid(7), Lid{11});
  EXPECT_EQ(port.pkey(0), PKey{0x8001});
  EXPECT_FALSE(port.pkey(1).is_valid());
}

TEST(PortPolicies, HaveTheNamesOfMlx5AndSayWhatAPortMayBe) {
  for (const PortPolicy policy : kPortPolicies) {
    EXPECT_EQ(port_policy_of(name_of(policy)), policy);
  }
  EXPECT_EQ(port_policy_of("Follow"), PortPolicy::Follow);
  EXPECT_EQ(port_policy_of("follow"), std::nullopt);
  EXPECT_EQ(port_policy_of(""), std::nullopt);
  for (const PortState state :
       {PortState::Down, PortState::Initialize, PortState::Armed, PortState::Active}) {
    EXPECT_EQ(state_under(PortPolicy::Down, state), PortState::Down);
    EXPECT_EQ(state_under(PortPolicy::Follow, state), state);
    EXPECT_EQ(state_under(PortPolicy::Up, state),
              state == PortState::Down ? PortState::Initialize : state);
  }
}

}  // namespace
}  // namespace weft::verbs
