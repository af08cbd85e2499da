#include "subnet/sa/node_records.h"

#include <gtest/gtest.h>

#include "subnet/testing/sa_lab.h"
#include "wire/mad/sa_table_records.h"

namespace weft::subnet {
namespace {

using wire::kComponent;
using wire::SaAttribute;
using wire::SaStatus;

TEST(SaNodeRecords, AreOneForEachPortWithALid) {
  SaLab lab;
  const auto records = lab.table<wire::NodeRecord>(SaLab::kH1, SaAttribute::NodeRecord, {}, 0, 1)
                           .records<wire::NodeRecord>();
  ASSERT_EQ(records.size(), 6U);
  EXPECT_EQ(records[2].lid, SaLab::kH3);
  EXPECT_EQ(records[2].node_info.port_guid, Guid{kPortGuid + 3});
  EXPECT_EQ(records[2].node_info.local_port, PortNumber{1});
  EXPECT_EQ(records[2].node_description.text[0], std::byte{'h'});
  EXPECT_EQ(records[4].node_info.node_type, wire::NodeType::Switch);
  EXPECT_EQ(records[4].lid, SaLab::kS1);
}

TEST(SaNodeRecords, AreFoundByAnyLidOfThePort) {
  SaLab lab;
  const auto record = lab.get(SaLab::kH1, SaAttribute::NodeRecord, wire::NodeRecord{.lid = Lid{5}},
                              kComponent<wire::NodeRecord, "LID">)
                          .record<wire::NodeRecord>();
  EXPECT_EQ(record.lid, SaLab::kH3);
}

TEST(SaNodeRecords, AreFoundByComponents) {
  SaLab lab;
  wire::NodeRecord wanted;
  wanted.node_info.node_type = wire::NodeType::Switch;
  EXPECT_EQ(lab.table(SaLab::kH1, SaAttribute::NodeRecord, wanted,
                      kComponent<wire::NodeRecord, "NodeType">)
                .records<wire::NodeRecord>()
                .size(),
            2U);
  wanted.node_info.port_guid = Guid{kPortGuid + 2};
  EXPECT_EQ(
      lab.get(SaLab::kH1, SaAttribute::NodeRecord, wanted, kComponent<wire::NodeRecord, "PortGUID">)
          .record<wire::NodeRecord>()
          .lid,
      SaLab::kH2);
}

TEST(SaNodeRecords, OfOtherPartitionsAreForTrustedRequestsOnly) {  // §15.4.1.2
  SaLab lab;
  constexpr auto kLid = kComponent<wire::NodeRecord, "LID">;
  const wire::NodeRecord h4{.lid = SaLab::kH4};
  EXPECT_EQ(lab.get(SaLab::kH3, SaAttribute::NodeRecord, h4, kLid).status,
            code(SaStatus::NoRecords));
  EXPECT_EQ(lab.get(SaLab::kH2, SaAttribute::NodeRecord, h4, kLid).status, 0);
  EXPECT_EQ(lab.get(SaLab::kH3, SaAttribute::NodeRecord, h4, kLid, 1).status, 0);
  EXPECT_EQ(lab.table<wire::NodeRecord>(SaLab::kH4, SaAttribute::NodeRecord)
                .records<wire::NodeRecord>()
                .size(),
            2U)
      << "itself and h2";
}

TEST(SaPortInfoRecords, AreThoseOfASwitchPortByPort) {
  SaLab lab;
  const auto records =
      lab.table(SaLab::kH1, SaAttribute::PortInfoRecord, wire::PortInfoRecord{.lid = SaLab::kS1},
                kComponent<wire::PortInfoRecord, "LID">)
          .records<wire::PortInfoRecord>();
  ASSERT_EQ(records.size(), 5U);
  EXPECT_EQ(records[3].port, PortNumber{3});
  EXPECT_EQ(records[3].lid, SaLab::kS1);
}

TEST(SaPortInfoRecords, HideTheMKeyWithoutTrust) {
  SaLab lab;
  constexpr auto kLid = kComponent<wire::PortInfoRecord, "LID">;
  const wire::PortInfoRecord h2{.lid = SaLab::kH2};
  EXPECT_EQ(lab.get(SaLab::kH1, SaAttribute::PortInfoRecord, h2, kLid)
                .record<wire::PortInfoRecord>()
                .port_info.mkey,
            0U);
  EXPECT_EQ(lab.get(SaLab::kH1, SaAttribute::PortInfoRecord, h2, kLid, 1)
                .record<wire::PortInfoRecord>()
                .port_info.mkey,
            0xABCDU);
  // Nor can it be found by trying.
  wire::PortInfoRecord guess = h2;
  guess.port_info.mkey = 0xABCD;
  EXPECT_EQ(lab.get(SaLab::kH1, SaAttribute::PortInfoRecord, guess,
                    kLid | kComponent<wire::PortInfoRecord, "M_Key">)
                .status,
            code(SaStatus::NoRecords));
}

TEST(SaPortInfoRecords, MatchCapabilitiesAsAMaskWhenAsked) {  // as saquery -s does
  SaLab lab;
  lab.control.model.port(lab.h1).info.capability_mask =
      wire::PortCapabilities{wire::PortCapability::IsSm} | wire::PortCapability::IsTrapSupported;
  wire::PortInfoRecord wanted;
  wanted.port_info.capability_mask = wire::PortCapability::IsSm;
  constexpr auto kMask = kComponent<wire::PortInfoRecord, "CapabilityMask">;
  const auto count = [&](std::uint32_t modifier) {
    return lab
        .ask(SaLab::kH3, wire::MadMethod::GetTable, SaAttribute::PortInfoRecord, wire::pack(wanted),
             kMask, 0, modifier)
        .records<wire::PortInfoRecord>()
        .size();
  };
  EXPECT_EQ(count(1U << 31), 1U);
  EXPECT_EQ(count(0), 0U);
  lab.control.model.port(lab.h2).info.capability_mask2 =
      wire::PortCapabilities2{wire::PortCapability2::IsLinkWidth2xSupported} |
      wire::PortCapability2::IsLinkSpeedHdrSupported;
  wanted.port_info.capability_mask2 = wire::PortCapability2::IsLinkSpeedHdrSupported;
  EXPECT_EQ(
      lab.ask(SaLab::kH3, wire::MadMethod::GetTable, SaAttribute::PortInfoRecord,
              wire::pack(wanted), kComponent<wire::PortInfoRecord, "CapabilityMask2">, 0, 1U << 30)
          .records<wire::PortInfoRecord>()
          .size(),
      1U);
}

TEST(SaSwitchInfoRecords, AreOfSwitchesOnly) {
  SaLab lab;
  const auto records = lab.table<wire::SwitchInfoRecord>(SaLab::kH1, SaAttribute::SwitchInfoRecord)
                           .records<wire::SwitchInfoRecord>();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[1].lid, SaLab::kS2);
  EXPECT_EQ(records[1].switch_info.linear_fdb_cap, 0xBFFF);
  EXPECT_EQ(
      lab.get(SaLab::kH1, SaAttribute::SwitchInfoRecord, wire::SwitchInfoRecord{.lid = SaLab::kH1},
              kComponent<wire::SwitchInfoRecord, "LID">)
          .status,
      code(SaStatus::NoRecords));
}

TEST(SaGuidInfoRecords, AreBlocksOfEight) {
  SaLab lab;
  lab.control.model.port(lab.h3).guids[9] = Guid{0x99};
  const auto records =
      lab.table(SaLab::kH1, SaAttribute::GuidInfoRecord, wire::GuidInfoRecord{.lid = SaLab::kH3},
                kComponent<wire::GuidInfoRecord, "LID">)
          .records<wire::GuidInfoRecord>();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].guid_info.guids[0], Guid{kPortGuid + 3});
  EXPECT_EQ(records[1].block, 1);
  EXPECT_EQ(records[1].guid_info.guids[1], Guid{0x99});
}

TEST(SaSmInfoRecords, AreOfAllManagersAndWithoutKeys) {
  SaLab lab;
  lab.control.others.push_back({
      .port = lab.h2, .info = {.guid = Guid{kPortGuid + 2}, .sm_key = 77, .priority = 3}
  });
  const auto records = lab.table<wire::SmInfoRecord>(SaLab::kH3, SaAttribute::SmInfoRecord)
                           .records<wire::SmInfoRecord>();
  ASSERT_EQ(records.size(), 2U);
  EXPECT_EQ(records[0].lid, SaLab::kH1);
  EXPECT_EQ(records[0].sm_info.state, wire::SmState::Master);
  EXPECT_EQ(records[0].sm_info.priority, 5);
  EXPECT_EQ(records[0].sm_info.sm_key, 0U);
  EXPECT_EQ(records[1].lid, SaLab::kH2);
  EXPECT_EQ(records[1].sm_info.sm_key, 0U);
  EXPECT_EQ(lab.get(SaLab::kH3, SaAttribute::SmInfoRecord, wire::SmInfoRecord{.lid = SaLab::kH2},
                    kComponent<wire::SmInfoRecord, "LID">)
                .record<wire::SmInfoRecord>()
                .sm_info.priority,
            3);
}

TEST(SaLinkRecords, AreBothDirectionsOfEachCable) {
  SaLab lab;
  const auto all = lab.table<wire::LinkRecord>(SaLab::kH1, SaAttribute::LinkRecord, {}, 0, 1)
                       .records<wire::LinkRecord>();
  EXPECT_EQ(all.size(), 12U);  // six cables
  const auto from_s1 =
      lab.table(SaLab::kH1, SaAttribute::LinkRecord,
                wire::LinkRecord{.from_lid = SaLab::kS1, .to_lid = SaLab::kS2},
                kComponent<wire::LinkRecord, "FromLID"> | kComponent<wire::LinkRecord, "ToLID">)
          .records<wire::LinkRecord>();
  ASSERT_EQ(from_s1.size(), 2U);
  EXPECT_EQ(from_s1[0], (wire::LinkRecord{.from_lid = SaLab::kS1,
                                          .from_port = PortNumber{3},
                                          .to_port = PortNumber{3},
                                          .to_lid = SaLab::kS2}));
  const auto from_h3 =
      lab.get(SaLab::kH1, SaAttribute::LinkRecord, wire::LinkRecord{.from_lid = Lid{5}},
              kComponent<wire::LinkRecord, "FromLID">);
  EXPECT_EQ(from_h3.record<wire::LinkRecord>().to_lid, SaLab::kS2);
  EXPECT_EQ(from_h3.header.attribute_offset, 1);
}

TEST(SaLinkRecords, HideEndsOfOtherPartitions) {
  SaLab lab;
  for (const auto& link : lab.table<wire::LinkRecord>(SaLab::kH3, SaAttribute::LinkRecord)
                              .records<wire::LinkRecord>()) {
    EXPECT_NE(link.to_lid, SaLab::kH4);
    EXPECT_NE(link.from_lid, SaLab::kH4);
  }
}

}  // namespace
}  // namespace weft::subnet
