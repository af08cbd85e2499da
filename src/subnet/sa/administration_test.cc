// The SA server as a client sees it: headers, dispatch, trust (IBTA vol 1 §15.2, §15.4.1).

#include "subnet/sa/administration.h"

#include <gtest/gtest.h>

#include "subnet/testing/sa_lab.h"
#include "wire/mad/class_port_info.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/sa_table_records.h"

namespace weft::subnet {
namespace {

using wire::MadMethod;
using wire::SaAttribute;
using wire::SaStatus;

TEST(SubnetAdministration, TellsItsClassPortInfo) {
  SaLab lab;
  const Reported reported = lab.ask(SaLab::kH3, MadMethod::Get, SaAttribute::ClassPortInfo);
  ASSERT_TRUE(reported.is_answered);
  EXPECT_EQ(reported.status, 0);
  EXPECT_EQ(reported.header.header.method, MadMethod::GetResp);
  const auto info = reported.record<wire::ClassPortInfo>();
  EXPECT_EQ(info.base_version, 1);
  EXPECT_EQ(info.class_version, 2);
  EXPECT_EQ(info.capability_mask & 1U << 9, 1U << 9) << "UD multicast";
  EXPECT_EQ(info.redirect_lid, Lid{});
}

TEST(SubnetAdministration, RepeatsTheHeaderWithoutTheSmKey) {  // C15-0.1.5
  SaLab lab;
  constexpr auto kMask = wire::kComponent<wire::NodeRecord, "LID">;
  const Reported reported =
      lab.get(SaLab::kH3, SaAttribute::NodeRecord, wire::NodeRecord{.lid = SaLab::kH2}, kMask, 1);
  EXPECT_EQ(reported.status, 0);
  EXPECT_EQ(reported.header.sm_key, 0U);
  EXPECT_EQ(reported.header.component_mask, kMask);
  EXPECT_EQ(reported.header.attribute_offset, 14);
}

TEST(SubnetAdministration, IgnoresAWrongSmKey) {  // §15.4.1.1
  SaLab lab;
  EXPECT_FALSE(
      lab.ask(SaLab::kH3, MadMethod::Get, SaAttribute::ClassPortInfo, {}, 0, 99).is_answered);
  EXPECT_EQ(lab.sa.counters().wrong_sm_key, 1U);
}

TEST(SubnetAdministration, IgnoresWhoIsNoPortOfTheSubnet) {
  SaLab lab;
  EXPECT_FALSE(lab.ask(Lid{40}, MadMethod::Get, SaAttribute::ClassPortInfo).is_answered);
  EXPECT_EQ(lab.sa.counters().unknown_requester, 1U);
}

TEST(SubnetAdministration, AnswersOnlyAsMaster) {
  SaLab lab;
  lab.control.sm_state = wire::SmState::Standby;
  EXPECT_FALSE(lab.ask(SaLab::kH3, MadMethod::Get, SaAttribute::ClassPortInfo).is_answered);
}

TEST(SubnetAdministration, RefusesWhatAnAttributeCannot) {
  SaLab lab;
  const auto status = [&](MadMethod method, SaAttribute attribute) {
    return lab.ask(SaLab::kH3, method, attribute).status;
  };
  EXPECT_EQ(status(MadMethod::Set, SaAttribute::NodeRecord),
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(status(MadMethod::Delete, SaAttribute::PathRecord),
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(status(MadMethod::GetTable, SaAttribute::ClassPortInfo),
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(status(MadMethod::Get, SaAttribute::InformInfo),
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(status(MadMethod::Get, SaAttribute::RandomForwardingTableRecord),
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(status(MadMethod::GetMulti, SaAttribute::PathRecord),
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(status(MadMethod::Get, static_cast<SaAttribute>(0x7777)),
            wire::kMadStatusMethodAttributeUnsupported);
}

TEST(SubnetAdministration, GetHasOneRecordOrAStatus) {  // C15-0.1.30
  SaLab lab;
  constexpr auto kMask = wire::kComponent<wire::NodeRecord, "LID">;
  EXPECT_EQ(
      lab.get(SaLab::kH3, SaAttribute::NodeRecord, wire::NodeRecord{.lid = Lid{99}}, kMask).status,
      code(SaStatus::NoRecords));
  EXPECT_EQ(lab.get(SaLab::kH3, SaAttribute::NodeRecord, wire::NodeRecord{}, 0).status,
            code(SaStatus::TooManyRecords));
}

TEST(SubnetAdministration, AnEmptyTableIsAnAnswer) {
  SaLab lab;
  const Reported reported =
      lab.table(SaLab::kH3, SaAttribute::NodeRecord, wire::NodeRecord{.lid = Lid{99}},
                wire::kComponent<wire::NodeRecord, "LID">);
  ASSERT_TRUE(reported.is_answered);
  EXPECT_EQ(reported.status, 0);
  EXPECT_EQ(reported.header.attribute_offset, 0);
  EXPECT_TRUE(reported.data.empty());
}

TEST(SubnetAdministration, RefusesATableThatIsLongerThanItsLimit) {
  SaLab lab{{.answer_bytes = 300}};
  EXPECT_EQ(lab.table<wire::NodeRecord>(SaLab::kH3, SaAttribute::NodeRecord).status,
            code(SaStatus::TooManyRecords));
}

TEST(SubnetAdministration, RegistersOnce) {
  SaLab lab;
  SubnetAdministration second{lab.control, lab.server};
  const auto refused = second.start();
  ASSERT_FALSE(refused);
  EXPECT_FALSE(refused.error().reason.empty());
}

TEST(SubnetAdministration, ForgetsRegistrationsWhenItIsMasterNoMore) {
  SaLab lab;
  EXPECT_EQ(lab.sa.groups().groups().size(), 1U);
  lab.control.sm_state = wire::SmState::Standby;
  lab.sa.state_changed(wire::SmState::Standby, lab.network.now);
  EXPECT_TRUE(lab.sa.groups().groups().empty());
}

TEST(SubnetAdministration, AsMasterAgainTakesDownTreesOfGroupsThatItForgot) {
  SaLab lab;
  using Record = wire::McMemberRecord;
  const Record record{
      .mgid = Gid{0xFF12'0000'0000'0000, Guid{1}},
      .port_gid = lab.gid(lab.h2),
      .pkey = kDefaultPKey,
      .join_state = wire::JoinState::FullMember
  };
  ASSERT_EQ(lab.set(SaLab::kH2, SaAttribute::McMemberRecord, record,
                    wire::all_components<Record>() &
                        ~(wire::kComponent<Record, "MtuSelector"> |
                          wire::kComponent<Record, "RateSelector"> |
                          wire::kComponent<Record, "PacketLifeTimeSelector"> |
                          wire::kComponent<Record, "MLID">))
                .status,
            0);
  EXPECT_EQ(lab.control.trees[Lid{0xC001}].size(), 1U);
  lab.sa.state_changed(wire::SmState::Standby, lab.network.now);
  EXPECT_EQ(lab.control.trees[Lid{0xC001}].size(), 1U) << "no business of a standby";
  lab.sa.state_changed(wire::SmState::Master, lab.network.now);
  EXPECT_TRUE(lab.control.trees[Lid{0xC001}].empty());
  EXPECT_EQ(lab.control.trees[Lid{0xC000}].size(), 3U);
}

TEST(SubnetAdministration, TablesOfALargeSubnetComeByRmpp) {
  SaLab lab;
  constexpr std::uint32_t kHosts = 6'804;
  for (std::uint32_t i = 0; i < kHosts - 4; ++i) {
    (void)add_host(lab.control.model, 100 + i, Lid{100 + i});
  }
  ++lab.control.model.generation;
  const Reported reported = lab.table<wire::NodeRecord>(SaLab::kH3, SaAttribute::NodeRecord);
  EXPECT_EQ(reported.status, 0);
  const auto records = reported.records<wire::NodeRecord>();
  // h4 is in another partition; the two switches are in the default one.
  ASSERT_EQ(records.size(), kHosts - 1 + 2);
  EXPECT_EQ(records.back().lid, Lid{100 + kHosts - 5});
  EXPECT_EQ(lab.table<wire::NodeRecord>(SaLab::kH3, SaAttribute::NodeRecord, {}, 0, 1)
                .records<wire::NodeRecord>()
                .size(),
            kHosts + 2);
}

}  // namespace
}  // namespace weft::subnet
