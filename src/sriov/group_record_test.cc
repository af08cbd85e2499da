#include "sriov/group_record.h"

#include <gtest/gtest.h>

namespace weft::sriov {
namespace {

using wire::kComponent;
using wire::McMemberRecord;
using wire::Selector;

const Gid kMgid{0xFF12'401B'FFFF'0000, Guid{1}};

McMemberRecord group() {
  return {.mgid = kMgid,
          .qkey = QKey{5},
          .mlid = Lid{0xC001},
          .mtu_selector = Selector::Exactly,
          .mtu = 4,
          .pkey = kDefaultPKey,
          .rate_selector = Selector::Exactly,
          .rate = 3};
}

TEST(SriovGroupRecord, ComparesWhatTheMaskNames) {
  McMemberRecord wanted = group();
  wanted.qkey = QKey{6};
  constexpr auto kQKey = kComponent<McMemberRecord, "Q_Key">;
  EXPECT_TRUE(fits(group(), wanted, kMembershipMask));
  EXPECT_FALSE(fits(group(), wanted, kMembershipMask | kQKey));
  wanted.qkey = QKey{5};
  EXPECT_TRUE(fits(group(), wanted, kMembershipMask | kQKey));
  wanted.port_gid = Gid{1, Guid{2}};
  wanted.join_state = wire::JoinState::NonMember;
  EXPECT_TRUE(fits(group(), wanted, kMembershipMask | kQKey));  // a member's, not the group's
}

TEST(SriovGroupRecord, ComparesMtuAndRateAsTheSelectorsSay) {
  constexpr auto kMtu =
      kComponent<McMemberRecord, "MtuSelector"> | kComponent<McMemberRecord, "Mtu">;
  constexpr auto kRate =
      kComponent<McMemberRecord, "RateSelector"> | kComponent<McMemberRecord, "Rate">;
  McMemberRecord wanted = group();
  const auto with = [&](Selector selector, std::uint8_t value) {
    wanted.mtu_selector = wanted.rate_selector = selector;
    wanted.mtu = wanted.rate = value;
  };
  with(Selector::GreaterThan, 3);
  EXPECT_TRUE(fits(group(), wanted, kMtu));
  EXPECT_FALSE(fits(group(), wanted, kRate));
  with(Selector::LessThan, 4);
  EXPECT_FALSE(fits(group(), wanted, kMtu));
  EXPECT_TRUE(fits(group(), wanted, kRate));
  with(Selector::Exactly, 4);
  EXPECT_TRUE(fits(group(), wanted, kMtu));
  EXPECT_FALSE(fits(group(), wanted, kRate));
  with(Selector::Best, 0);
  EXPECT_TRUE(fits(group(), wanted, kMtu | kRate));
  with(Selector::LessThan, 0);
  EXPECT_TRUE(fits(group(), wanted, kComponent<McMemberRecord, "Mtu">));  // without its selector
}

TEST(SriovGroupRecord, ARequestOfThePortNamesItsGidAndTheUnion) {
  const Gid port{kDefaultGidPrefix, Guid{9}};
  const Flags<wire::JoinState> states =
      Flags{wire::JoinState::FullMember} | wire::JoinState::NonMember;
  const wire::SaMad join = make_request(group(), true, port, states);
  EXPECT_EQ(join.sa.header.method, wire::MadMethod::Set);
  EXPECT_EQ(record_of(join).port_gid, port);
  EXPECT_EQ(record_of(join).join_state, states);
  EXPECT_EQ(record_of(join).qkey, QKey{5});
  EXPECT_TRUE(is_member_record(join.sa.header));
  EXPECT_EQ(make_request(group(), false, port, states).sa.component_mask, kMembershipMask);
}

}  // namespace
}  // namespace weft::sriov
