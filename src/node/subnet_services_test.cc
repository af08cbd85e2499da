// The SA over a whole fabric: clients on other hosts ask it through the network that its own subnet
// manager brought up (IBTA vol 1 §15.2).

#include "node/subnet_services.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "fabric/topology.h"
#include "node/testing/managed_fabric.h"
#include "node/testing/sa_client.h"
#include "subnet/rate.h"
#include "verbs/mtu.h"
#include "wire/mad/inform_info.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/notice.h"
#include "wire/mad/notice_details.h"
#include "wire/mad/path_record.h"
#include "wire/mad/sa_table_records.h"

namespace weft::node {
namespace {

using testing::ManagedFabric;
using testing::SaClient;
using wire::kComponent;
using wire::MadMethod;
using wire::SaAttribute;
using wire::SaStatus;

class SubnetServicesOnAFatTree : public ::testing::Test {
 protected:
  SubnetServicesOnAFatTree() {
    fabric.add_services("h1");
    fabric.settle();
  }
  ManagedFabric fabric{*fabric::generate("fat-tree:4")};
};

TEST_F(SubnetServicesOnAFatTree, TellAllNodesByRmpp) {
  SaClient h3{fabric, "h3"};
  const auto answer = h3.ask<wire::NodeRecord>(MadMethod::GetTable, SaAttribute::NodeRecord);
  EXPECT_EQ(answer.status, 0);
  const auto nodes = answer.records<wire::NodeRecord>();
  EXPECT_EQ(nodes.size(), fabric.builder.nodes().size());
  EXPECT_GT(answer.data.size(), wire::kSaDataBytes) << "more than one segment";
  std::size_t switches = 0;
  for (const wire::NodeRecord& node : nodes) {
    switches += node.node_info.node_type == wire::NodeType::Switch ? 1 : 0;
  }
  EXPECT_EQ(nodes.size() - switches, 8U);
}

TEST_F(SubnetServicesOnAFatTree, TellPathsThatTheFabricWalks) {  // T-SA-1
  SaClient h3{fabric, "h3"};
  SaClient h8{fabric, "h8"};
  const auto answer = h3.ask(
      MadMethod::Get, SaAttribute::PathRecord, wire::PathRecord{.dgid = h8.gid(), .sgid = h3.gid()},
      kComponent<wire::PathRecord, "DGID"> | kComponent<wire::PathRecord, "SGID">);
  ASSERT_EQ(answer.status, 0);
  const auto path = *wire::parse<wire::PathRecord>(answer.data);
  EXPECT_EQ(path.slid, Lid{3});
  EXPECT_EQ(path.dlid, Lid{8});
  EXPECT_EQ(path.pkey, kDefaultPKey);
  EXPECT_TRUE(path.reversible);
  const auto image = fabric.builder.build(1);
  const auto view = fabric::TablesView::open(image);
  const fabric::Path walked = fabric::resolve(*view, fabric.port("h3", 1), path.dlid);
  EXPECT_TRUE(walked.is_delivered());
  EXPECT_EQ(walked.destination, fabric.port("h8", 1));
}

/// On routes of several levels, over cables of several rates and to ports of several MTUs: what the
/// subnet manager routed, and what the fabric's own walks there and back find.
TEST(SubnetServicesOnATorus, TellLevelMtuAndRateOfTheRoute) {  // T-SA-1
  constexpr std::array kRatesGbps{100.0, 200.0, 100.0, 40.0, 100.0, 100.0, 10.0};
  constexpr std::array kMtus{verbs::Mtu::Mtu4096, verbs::Mtu::Mtu1024, verbs::Mtu::Mtu2048};
  fabric::Topology topology = *fabric::generate("torus:5x5");
  for (std::size_t i = 0; i < topology.links.size(); ++i) {
    topology.links[i].rate_gbps = kRatesGbps.at(i % kRatesGbps.size());
  }
  for (std::size_t i = 2; i < topology.hosts.size(); ++i) {
    topology.hosts[i].hcas[0].ports[0].max_mtu = kMtus.at(i % kMtus.size());
  }
  ManagedFabric fabric{topology};
  subnet::SubnetManagerOptions options;
  options.engines = {subnet::RoutingEngine::DeadlockFree};
  const subnet::SubnetManager& manager = fabric.add_services("h1", options).manager();
  fabric.settle();
  const auto image = fabric.builder.build(1);
  const auto view = fabric::TablesView::open(image);
  SaClient h2{fabric, "h2"};
  std::set<ServiceLevel> levels;
  std::set<verbs::Mtu> mtus;
  std::set<std::uint32_t> rates;
  for (std::uint32_t number = 3; number <= 25; ++number) {
    SCOPED_TRACE(number);
    const fabric::PortIndex port = fabric.port(fmt::format("h{}", number), 1);
    const auto answer = h2.ask(
        MadMethod::Get, SaAttribute::PathRecord,
        wire::PathRecord{
            .dgid = Gid{kDefaultGidPrefix, fabric.builder.port(port).guid},
              .sgid = h2.gid()
    },
        kComponent<wire::PathRecord, "DGID"> | kComponent<wire::PathRecord, "SGID">);
    ASSERT_EQ(answer.status, 0);
    const auto path = *wire::parse<wire::PathRecord>(answer.data);
    EXPECT_EQ(path.dlid, fabric.builder.port(port).lid);
    const auto routed = manager.path(path.slid, path.dlid);
    ASSERT_TRUE(routed);
    EXPECT_EQ(path.sl, routed->sl);
    const fabric::Path there = fabric::resolve(*view, fabric.port("h2", 1), path.dlid);
    const fabric::Path back = fabric::resolve(*view, port, path.slid);
    EXPECT_EQ(static_cast<verbs::Mtu>(path.mtu), std::min(there.mtu, back.mtu));
    EXPECT_EQ(subnet::rate_hundreds_of_mbps(path.rate) * 100,
              std::min(there.rate_mbps, back.rate_mbps));
    levels.insert(path.sl);
    mtus.insert(there.mtu);
    rates.insert(there.rate_mbps);
  }
  EXPECT_GT(levels.size(), 1U);
  EXPECT_GT(mtus.size(), 1U);
  EXPECT_GT(rates.size(), 1U);
}

TEST_F(SubnetServicesOnAFatTree, JoinGroupsWhoseTreesCarry) {
  using Record = wire::McMemberRecord;
  constexpr auto kMask =
      kComponent<Record, "MGID"> | kComponent<Record, "PortGID"> | kComponent<Record, "JoinState"> |
      kComponent<Record, "Q_Key"> | kComponent<Record, "TClass"> | kComponent<Record, "P_Key"> |
      kComponent<Record, "SL"> | kComponent<Record, "FlowLabel"> | kComponent<Record, "MLID">;
  const auto join = [&](SaClient& client) {
    return client.ask(MadMethod::Set, SaAttribute::McMemberRecord,
                      Record{
                          .mgid = Gid{0xFF12'0000'0000'0000, Guid{7}},
                          .port_gid = client.gid(),
                          .mlid = Lid{0xC005},
                          .pkey = kDefaultPKey,
                          .join_state = wire::JoinState::FullMember
    },
                      kMask);
  };
  SaClient h3{fabric, "h3"};
  SaClient h8{fabric, "h8"};
  const auto first = join(h3);
  ASSERT_EQ(first.status, 0);
  EXPECT_EQ(wire::parse<Record>(first.data)->mlid, Lid{0xC005});
  ASSERT_EQ(join(h8).status, 0);
  const auto reached = [&](Lid mlid, const std::string& from) {
    const auto image = fabric.builder.build(1);
    const auto view = fabric::TablesView::open(image);
    return fabric::resolve_multicast(*view, fabric.port(from, 1), mlid).members;
  };
  EXPECT_THAT(reached(Lid{0xC005}, "h3"), ::testing::ElementsAre(fabric.port("h8", 1)));
  EXPECT_THAT(reached(Lid{0xC000}, "h3"), ::testing::SizeIs(7)) << "the broadcast group";
}

TEST_F(SubnetServicesOnAFatTree, ReportLinksThatFail) {
  SaClient h3{fabric, "h3"};
  const wire::InformInfo info{.lid_range_begin = kPermissiveLid,
                              .is_generic = 1,
                              .subscribe = 1,
                              .type = 0xFFFF,
                              .trap_number = 0xFFFF,
                              .producer_type = 0xFF'FFFF};
  ASSERT_EQ(h3.ask(MadMethod::Set, SaAttribute::InformInfo, info).status, 0);
  ASSERT_TRUE(fabric.plane.set_link(fabric.port("h8", 1), false, fabric.now).has_value());
  fabric.settle();
  bool has_link_state = false;
  bool has_gone = false;
  const Gid h8{kDefaultGidPrefix, fabric.builder.port(fabric.port("h8", 1)).guid};
  for (const wire::SaNotice& notice : h3.reports.heard) {
    has_link_state |= notice.notice.trap_number == 128;
    has_gone |= notice.notice.trap_number == 65 &&
                wire::unpack<wire::GidNoticeDetails>(notice.notice.details).gid == h8;
  }
  EXPECT_TRUE(has_link_state);
  EXPECT_TRUE(has_gone);
}

/// Traps 257 and 258 (IBTA vol 1 §14.2.5.1), by the trap of the port where they were dropped.
TEST_F(SubnetServicesOnAFatTree, ReportPacketsWithWrongKeysToTrustedSubscribers) {
  SaClient h3{fabric, "h3"};
  SaClient h4{fabric, "h4"};
  h3.sm_key = subnet::SubnetManagerOptions{}.sm_key;
  wire::InformInfo info{.lid_range_begin = kPermissiveLid,
                        .is_generic = 1,
                        .subscribe = 1,
                        .type = 0xFFFF,
                        .trap_number = 0xFFFF,
                        .producer_type = 0xFF'FFFF};
  ASSERT_EQ(h4.ask(MadMethod::Set, SaAttribute::InformInfo, info).status, 0);
  for (const wire::Trap trap : {wire::Trap::BadPKey, wire::Trap::BadQKey}) {
    info.trap_number = static_cast<std::uint16_t>(trap);
    ASSERT_EQ(h3.ask(MadMethod::Set, SaAttribute::InformInfo, info).status, 0);
  }
  const fabric::PortIndex h8 = fabric.port("h8", 1);
  agents::BadKey bad{.source = Lid{3},
                     .destination = fabric.builder.port(h8).lid,
                     .sl = ServiceLevel{2},
                     .source_qp = Qpn{0x4001},
                     .destination_qp = Qpn{0x8001},
                     .key = 0x8123};
  fabric.plane.agents().note_bad_pkeys(h8, bad, 4, fabric.now);
  bad.key = 0x8001'0000;
  fabric.plane.agents().report_bad_qkey(h8, bad, fabric.now);
  fabric.settle();
  ASSERT_GE(h3.reports.heard.size(), 2U);
  std::vector<std::uint16_t> heard;
  for (const wire::SaNotice& report : h3.reports.heard) {
    EXPECT_EQ(report.notice.issuer_lid, bad.destination);
    const auto details = wire::unpack<wire::BadKeyNoticeDetails>(report.notice.details);
    EXPECT_EQ(details.lid1, Lid{3});
    EXPECT_EQ(details.lid2, bad.destination);
    EXPECT_EQ(details.sl, ServiceLevel{2});
    EXPECT_EQ(details.qp1, Qpn{0x4001});
    EXPECT_EQ(details.qp2, Qpn{0x8001});
    EXPECT_EQ(details.key, report.notice.trap_number == 257 ? 0x8123U : 0x8001'0000U);
    heard.push_back(report.notice.trap_number);
  }
  EXPECT_THAT(heard, ::testing::IsSupersetOf({257, 258}));
  EXPECT_TRUE(h4.reports.heard.empty()) << "keys are told to who is trusted (C15-0.2-1.16)";
}

}  // namespace
}  // namespace weft::node
