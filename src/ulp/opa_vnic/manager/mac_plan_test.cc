#include "ulp/opa_vnic/manager/mac_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace weft::opa_vnic {
namespace {

using wire::MacAddress;

MacAddress mac(std::uint64_t number) { return MacAddress::from_number(number); }

SwitchConfig three_members() {
  return {
      .name = "lab",
      .vesw_id = 1,
      .members = {{.port = Guid{1}, .mac = mac(0x10), .more_macs = {mac(0x11)}},
                  {.port = Guid{2}, .mac = mac(0x20)},
                  {.port = Guid{3}, .mac = mac(0x30)}}
  };
}

std::vector<std::pair<std::uint64_t, std::uint32_t>> table_of(const SwitchConfig& config,
                                                              std::span<const MemberMacs> members,
                                                              std::size_t member) {
  std::vector<std::pair<std::uint64_t, std::uint32_t>> entries;
  for (const auto& entry : plan_table(config, members, plan_owners(config, members), member)) {
    entries.emplace_back(entry.mac.number(), entry.is_source() ? 0 : entry.dlid);
  }
  return entries;
}

using Entries = std::vector<std::pair<std::uint64_t, std::uint32_t>>;

TEST(EthernetManagerPlan, HasTheAddressesOfOthersThatAreThere) {
  const std::array<MemberMacs, 3> members{
      {{.lid = 1, .reported = {}},
       {.lid = 2, .reported = {mac(0x21)}},
       {.lid = 0, .reported = {}}}
  };
  EXPECT_EQ(table_of(three_members(), members, 0), (Entries{
                                                       {0x20, 2},
                                                       {0x21, 2}
  }));
  EXPECT_EQ(table_of(three_members(), members, 1), (Entries{
                                                       {0x10, 1},
                                                       {0x11, 1}
  }));
}

TEST(EthernetManagerPlan, IgnoresReportsWhereAddressesAreConfigured) {
  SwitchConfig config = three_members();
  config.mac_source = MacSource::Configured;
  const std::array<MemberMacs, 3> members{
      {{.lid = 1, .reported = {}}, {.lid = 2, .reported = {mac(0x21)}}, {}}
  };
  EXPECT_EQ(table_of(config, members, 0), (Entries{
                                              {0x20, 2}
  }));
}

TEST(EthernetManagerPlan, LetsNobodyTakeAnothersAddress) {
  const std::array<MemberMacs, 3> members{
      {{.lid = 1, .reported = {}},
       {.lid = 2, .reported = {mac(0x99)}},
       {.lid = 3, .reported = {mac(0x10), mac(0x99)}}}
  };
  const auto table = table_of(three_members(), members, 1);
  EXPECT_EQ(table, (Entries{
                       {0x10, 1},
                       {0x11, 1},
                       {0x30, 3}
  }));
  EXPECT_EQ(table_of(three_members(), members, 0), (Entries{
                                                       {0x20, 2},
                                                       {0x30, 3},
                                                       {0x99, 2}
  }));
}

TEST(EthernetManagerPlan, ListsOwnAddressesAsSourcesWhereTheyAreFiltered) {
  SwitchConfig config = three_members();
  config.filters_sources = true;
  const std::array<MemberMacs, 3> members{
      {{.lid = 1, .reported = {}}, {.lid = 2, .reported = {}}, {}}
  };
  const auto table = plan_table(config, members, plan_owners(config, members), 0);
  EXPECT_EQ(std::ranges::count_if(table, &wire::MacTableEntry::is_source), 2);
}

TEST(EthernetManagerPlan, IsBounded) {
  SwitchConfig config = three_members();
  std::array<MemberMacs, 3> members{
      {{.lid = 1, .reported = {}}, {.lid = 2, .reported = {}}, {}}
  };
  for (std::uint64_t i = 0; i < 5000; ++i) {
    members[1].reported.push_back(mac(0x1000 + i * 4));
  }
  EXPECT_EQ(table_of(config, members, 0).size(), 2048U);
}

TEST(EthernetManagerPlan, HasADigestThatTellsTablesApart) {
  const std::vector<wire::MacTableEntry> one{
      {.mac = mac(1), .dlid = 1}
  };
  const std::vector<wire::MacTableEntry> other{
      {.mac = mac(1), .dlid = 2}
  };
  EXPECT_NE(digest_of(one), digest_of(other));
  EXPECT_EQ(digest_of(one), digest_of(one));
  EXPECT_NE(digest_of({}), 0U);
}

}  // namespace
}  // namespace weft::opa_vnic
