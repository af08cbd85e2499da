#include "subnet/sa/table_records.h"

#include <gtest/gtest.h>

#include "subnet/testing/sa_lab.h"
#include "wire/mad/sa_table_records.h"

namespace weft::subnet {
namespace {

using wire::kComponent;
using wire::SaAttribute;
using wire::SaStatus;

TEST(SaSlToVlRecords, AreByInputAndOutputPort) {
  SaLab lab;
  Subnet& subnet = lab.control.model;
  subnet.port(lab.h2).sl_to_vl.resize(1);
  subnet.port(lab.h2).sl_to_vl[0].vls[3] = VirtualLane{2};
  subnet.node(lab.s1).ports[2].sl_to_vl.resize(5);
  subnet.node(lab.s1).ports[2].sl_to_vl[4].vls[1] = VirtualLane{7};
  using Record = wire::SlToVlMappingTableRecord;
  const auto all =
      lab.table<Record>(SaLab::kH3, SaAttribute::SlToVlMappingTableRecord).records<Record>();
  ASSERT_EQ(all.size(), 6U + 2U);  // with ports 0 of the switches
  EXPECT_EQ(all[0].lid, SaLab::kH2);
  EXPECT_EQ(all[0].input_port, PortNumber{0});
  EXPECT_EQ(all[0].table.vls[3], VirtualLane{2});
  const auto one =
      lab.get(SaLab::kH3, SaAttribute::SlToVlMappingTableRecord,
              Record{.lid = SaLab::kS1, .input_port = PortNumber{4}, .output_port = PortNumber{2}},
              kComponent<Record, "LID"> | kComponent<Record, "InputPortNum"> |
                  kComponent<Record, "OutputPortNum">)
          .record<Record>();
  EXPECT_EQ(one.table.vls[1], VirtualLane{7});
}

TEST(SaVlArbitrationRecords, CountBlocksFromOne) {
  SaLab lab;
  lab.control.model.port(lab.h2).vl_arbitration.resize(3);
  lab.control.model.port(lab.h2).vl_arbitration[2].entries[0].weight = 9;
  using Record = wire::VlArbitrationTableRecord;
  const auto record = lab.get(SaLab::kH3, SaAttribute::VlArbitrationTableRecord,
                              Record{.lid = SaLab::kH2, .output_port = PortNumber{1}, .block = 3},
                              kComponent<Record, "LID"> | kComponent<Record, "OutputPortNum"> |
                                  kComponent<Record, "BlockNum">);
  EXPECT_EQ(record.status, 0);
  EXPECT_EQ(record.record<Record>().table.entries[0].weight, 9);
  EXPECT_EQ(
      lab.table<Record>(SaLab::kH3, SaAttribute::VlArbitrationTableRecord).records<Record>().size(),
      4U + 2 * 4U);  // also what the port has no entries for, and ports 0 of switches
}

/// §15.2.5.4: port numbers name those of switches; `osmtest -f q` asks HCAs for port 0.
TEST(SaTableRecords, OfAnHcaAreNamedByItsLidAlone) {
  SaLab lab;
  lab.control.model.port(lab.h2).vl_arbitration.resize(1);
  lab.control.model.port(lab.h2).sl_to_vl.resize(1);
  using Arbitration = wire::VlArbitrationTableRecord;
  EXPECT_EQ(lab.get(SaLab::kH3, SaAttribute::VlArbitrationTableRecord,
                    Arbitration{.lid = SaLab::kH2, .block = 1},
                    kComponent<Arbitration, "LID"> | kComponent<Arbitration, "OutputPortNum"> |
                        kComponent<Arbitration, "BlockNum">)
                .status,
            0);
  using Mapping = wire::SlToVlMappingTableRecord;
  EXPECT_EQ(lab.get(SaLab::kH3, SaAttribute::SlToVlMappingTableRecord,
                    Mapping{.lid = SaLab::kH2, .input_port = PortNumber{1}},
                    kComponent<Mapping, "LID"> | kComponent<Mapping, "InputPortNum"> |
                        kComponent<Mapping, "OutputPortNum">)
                .status,
            0);
  using Keys = wire::PKeyTableRecord;
  EXPECT_EQ(lab.get(SaLab::kH3, SaAttribute::PKeyTableRecord, Keys{.lid = SaLab::kH2},
                    kComponent<Keys, "LID"> | kComponent<Keys, "PortNum">, 1)
                .status,
            0);
}

TEST(SaLinearForwardingRecords, AreTheSwitchsTables) {
  SaLab lab;
  using Record = wire::LinearForwardingTableRecord;
  lab.control.model.node(lab.s2).forwarding.resize(130, wire::kNoForwardingPort);
  lab.control.model.node(lab.s2).forwarding[129] = PortNumber{4};
  const auto all =
      lab.table<Record>(SaLab::kH3, SaAttribute::LinearForwardingTableRecord).records<Record>();
  ASSERT_EQ(all.size(), 1U + 3U);
  EXPECT_EQ(all[0].lid, SaLab::kS1);
  EXPECT_EQ(all[0].table.ports[2], PortNumber{2});
  EXPECT_EQ(all[0].table.ports[63], wire::kNoForwardingPort);
  EXPECT_EQ(all[3].block, 2);
  EXPECT_EQ(all[3].table.ports[1], PortNumber{4});
  const auto named = [&](std::uint16_t block) {
    return lab.get(SaLab::kH3, SaAttribute::LinearForwardingTableRecord,
                   Record{.lid = SaLab::kS2, .block = block},
                   kComponent<Record, "LID"> | kComponent<Record, "BlockNum">);
  };
  EXPECT_EQ(named(2).record<Record>(), all[3]);
  EXPECT_EQ(named(3).status, code(SaStatus::NoRecords));
}

TEST(SaMulticastForwardingRecords, HaveSixteenPortsAPosition) {
  SaLab lab;
  using Record = wire::MulticastForwardingTableRecord;
  SubnetNode& s1 = lab.control.model.node(lab.s1);
  s1.multicast.resize(40);
  s1.multicast[33].set(2).set(4);
  const auto all =
      lab.table<Record>(SaLab::kH3, SaAttribute::MulticastForwardingTableRecord).records<Record>();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].block, 1);
  EXPECT_EQ(all[1].position, 0);
  EXPECT_EQ(all[1].table.port_masks[1], 0b1'0100);
  EXPECT_EQ(all[1].table.port_masks[0], 0);
  s1.ports.resize(37);
  s1.multicast[0].set(36);
  const auto third = lab.get(SaLab::kH3, SaAttribute::MulticastForwardingTableRecord,
                             Record{.lid = SaLab::kS1, .position = 2, .block = 0},
                             kComponent<Record, "LID"> | kComponent<Record, "Position"> |
                                 kComponent<Record, "BlockNum">)
                         .record<Record>();
  EXPECT_EQ(third.table.port_masks[0], 0b1'0000);
}

TEST(SaPKeyTableRecords, AreForTrustedRequestsOnly) {  // §15.4.1.2
  SaLab lab;
  using Record = wire::PKeyTableRecord;
  EXPECT_EQ(lab.table<Record>(SaLab::kH2, SaAttribute::PKeyTableRecord).status,
            code(SaStatus::RequestDenied));
  const auto all =
      lab.table<Record>(SaLab::kH2, SaAttribute::PKeyTableRecord, {}, 0, 1).records<Record>();
  ASSERT_EQ(all.size(), 6U);  // a block for each host, and for port 0 of each switch
  EXPECT_EQ(all[1].lid, SaLab::kH2);
  EXPECT_EQ(all[1].port, PortNumber{1});
  EXPECT_EQ(all[1].table.pkeys[1], SaLab::kOtherPKey);
}

}  // namespace
}  // namespace weft::subnet
