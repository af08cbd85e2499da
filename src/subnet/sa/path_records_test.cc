#include "subnet/sa/path_records.h"

#include <gtest/gtest.h>

#include <set>

#include "subnet/sa/path_query.h"
#include "subnet/testing/sa_lab.h"
#include "verbs/mtu.h"
#include "wire/mad/multi_path_record.h"
#include "wire/mad/path_record.h"

namespace weft::subnet {
namespace {

using wire::kComponent;
using wire::MadMethod;
using wire::PathRecord;
using wire::SaAttribute;
using wire::SaStatus;
using wire::Selector;

constexpr auto kSgid = kComponent<PathRecord, "SGID">;
constexpr auto kDgid = kComponent<PathRecord, "DGID">;
constexpr auto kSlid = kComponent<PathRecord, "SLID">;
constexpr auto kDlid = kComponent<PathRecord, "DLID">;
constexpr auto kNumbPath = kComponent<PathRecord, "NumbPath">;

class SaPaths : public ::testing::Test {
 protected:
  [[nodiscard]] Reported get(const PathRecord& wanted, std::uint64_t mask, Lid from = SaLab::kH1) {
    return lab.get(from, SaAttribute::PathRecord, wanted, mask);
  }
  [[nodiscard]] std::vector<PathRecord> table(const PathRecord& wanted, std::uint64_t mask,
                                              Lid from = SaLab::kH1) {
    return lab.table(from, SaAttribute::PathRecord, wanted, mask).records<PathRecord>();
  }
  SaLab lab;
  const Gid g1 = lab.gid(lab.h1);
  const Gid g2 = lab.gid(lab.h2);
  const Gid g3 = lab.gid(lab.h3);
  const Gid g4 = lab.gid(lab.h4);
};

TEST_F(SaPaths, ByGidsSayWhatTheRouteIs) {  // T-SA-1
  const Reported reported = get({.dgid = g3, .sgid = g1}, kSgid | kDgid);
  ASSERT_EQ(reported.status, 0);
  const auto path = reported.record<PathRecord>();
  EXPECT_EQ(path.dgid, g3);
  EXPECT_EQ(path.sgid, g1);
  EXPECT_EQ(path.slid, SaLab::kH1);
  EXPECT_EQ(path.dlid, SaLab::kH3);
  EXPECT_EQ(path.pkey, kDefaultPKey);
  EXPECT_EQ(path.mtu_selector, Selector::Exactly);
  EXPECT_EQ(path.mtu, 5);
  EXPECT_EQ(path.rate, 7);  // 4x QDR
  EXPECT_EQ(path.packet_life_time, 16);
  EXPECT_TRUE(path.reversible);
  EXPECT_EQ(path.hop_limit, 0);
}

TEST_F(SaPaths, CostTheirLengthWhateverTheSubnetsSize) {
  const auto before = lab.control.paths_walked;
  (void)get({.dgid = g3, .sgid = g1}, kSgid | kDgid);
  EXPECT_EQ(lab.control.paths_walked - before, 2U);  // there and back
}

TEST_F(SaPaths, AreNamedByGidOrLidInAnyCombination) {
  const auto by_lids =
      get({.dlid = Lid{5}, .slid = SaLab::kH2}, kSlid | kDlid).record<PathRecord>();
  EXPECT_EQ(by_lids.dlid, Lid{5});
  EXPECT_EQ(by_lids.sgid, g2);
  EXPECT_EQ(by_lids.dgid, g3);
  EXPECT_EQ(get({.dgid = g3, .slid = SaLab::kH2}, kSlid | kDgid).record<PathRecord>().dlid,
            SaLab::kH3);
  EXPECT_EQ(get({.dgid = g3, .sgid = g1, .dlid = Lid{5}}, kSgid | kDgid | kDlid)
                .record<PathRecord>()
                .dlid,
            Lid{5});
  EXPECT_EQ(get({.dgid = g3, .sgid = g1, .dlid = SaLab::kH2}, kSgid | kDgid | kDlid).status,
            code(SaStatus::RequestInvalid));
}

TEST_F(SaPaths, OfAliasGuidsHaveThatGid) {
  lab.control.model.port(lab.h3).guids[2] = Guid{0xA11A5};
  ++lab.control.model.generation;
  const Gid alias{kDefaultGidPrefix, Guid{0xA11A5}};
  const auto path = get({.dgid = alias, .sgid = g1}, kSgid | kDgid).record<PathRecord>();
  EXPECT_EQ(path.dgid, alias);
  EXPECT_EQ(path.dlid, SaLab::kH3);
}

TEST_F(SaPaths, TakeAllLidsOfAPort) {
  const auto paths = table({.dgid = g3, .sgid = g1}, kSgid | kDgid);
  ASSERT_EQ(paths.size(), 2U);
  EXPECT_EQ(paths[0].dlid, Lid{4});
  EXPECT_EQ(paths[1].dlid, Lid{5});
  EXPECT_EQ(table({.dgid = g3, .sgid = g1, .path_count = 1}, kSgid | kDgid | kNumbPath).size(), 1U);
}

TEST(SaLidPairs, AreAllPairsOnceAndDifferInBothFirst) {
  SubnetPort four;
  four.info.lid = Lid{16};
  four.info.lmc = 2;
  SubnetPort two;
  two.info.lid = Lid{32};
  two.info.lmc = 1;
  for (const auto& [a, b] : {
           std::pair{&four, &two },
           std::pair{&two,  &four},
           std::pair{&four, &four},
           std::pair{&two,  &two }
  }) {
    std::vector<std::pair<Lid, Lid>> pairs;
    for_each_lid_pair(*a, {}, *b, {}, [&](Lid s, Lid d) {
      pairs.emplace_back(s, d);
      return true;
    });
    EXPECT_EQ(pairs.size(), a->lid_count() * b->lid_count());
    EXPECT_EQ((std::set<std::pair<Lid, Lid>>{pairs.begin(), pairs.end()}.size()), pairs.size());
    EXPECT_NE(pairs[0].first, pairs[1].first);
    EXPECT_NE(pairs[0].second, pairs[1].second);
  }
}

TEST_F(SaPaths, WithoutDestinationGoEverywhereThatThePartitionReaches) {
  std::set<Lid> reached;
  for (const auto& path : table({.sgid = g1, .path_count = 1}, kSgid | kNumbPath)) {
    reached.insert(path.dlid);
  }
  EXPECT_EQ(reached, (std::set{SaLab::kH1, SaLab::kH2, SaLab::kH3, SaLab::kS1, SaLab::kS2}));
}

TEST_F(SaPaths, WithoutEndsAreAllPairsOfASmallSubnet) {  // as saquery -p asks
  EXPECT_EQ(table({.path_count = 1}, kNumbPath).size(), 25U);
}

TEST_F(SaPaths, BetweenAllPairsOfALargeSubnetAreRefusedBeforeAnyWork) {
  for (std::uint32_t i = 0; i < 300; ++i) {
    (void)add_host(lab.control.model, 100 + i, Lid{100 + i});
  }
  ++lab.control.model.generation;
  const auto before = lab.control.paths_walked;
  EXPECT_EQ(lab.table<PathRecord>(SaLab::kH1, SaAttribute::PathRecord).status,
            code(SaStatus::TooManyRecords));
  EXPECT_EQ(lab.control.paths_walked, before);
}

TEST_F(SaPaths, OfAGetNeedBothEnds) {
  EXPECT_EQ(get({}, 0).status, code(SaStatus::RequestInsufficientComponents));
  EXPECT_EQ(get({.sgid = g1}, kSgid).status, code(SaStatus::RequestInsufficientComponents));
  EXPECT_EQ(
      get({.dgid = g3, .sgid = g1}, kSgid | kDgid | kComponent<PathRecord, "ServiceID8MSB">).status,
      code(SaStatus::RequestInsufficientComponents));
}

TEST_F(SaPaths, OfUnknownEndsAreNoRecordsAndOfForeignGidsInvalid) {
  const Gid unknown{kDefaultGidPrefix, Guid{0xDEAD}};
  EXPECT_EQ(get({.dgid = unknown, .sgid = g1}, kSgid | kDgid).status, code(SaStatus::NoRecords));
  EXPECT_EQ(get({.dlid = Lid{77}, .slid = SaLab::kH1}, kSlid | kDlid).status,
            code(SaStatus::NoRecords));
  const Gid foreign{0xFEC0'0000'0000'0001, Guid{kPortGuid + 3}};
  EXPECT_EQ(get({.dgid = foreign, .sgid = g1}, kSgid | kDgid).status,
            code(SaStatus::RequestInvalidGid));
  EXPECT_EQ(get(
                {
                    .dgid = g3, .sgid = Gid{0xFF12'0000'0000'0000, Guid{1}}
  },
                kSgid | kDgid)
                .status,
            code(SaStatus::RequestInvalidGid));
}

TEST_F(SaPaths, AreOnlyBetweenPortsThatShareAPartition) {
  EXPECT_EQ(get({.dgid = g4, .sgid = g1}, kSgid | kDgid, SaLab::kH2).status,
            code(SaStatus::NoRecords));
  const auto path = get({.dgid = g4, .sgid = g2}, kSgid | kDgid, SaLab::kH2).record<PathRecord>();
  EXPECT_EQ(path.pkey, SaLab::kOtherPKey);
  const auto kPKey = kComponent<PathRecord, "P_Key">;
  EXPECT_EQ(get({.dgid = g3, .sgid = g2, .pkey = SaLab::kOtherPKey}, kSgid | kDgid | kPKey).status,
            code(SaStatus::NoRecords));
  EXPECT_EQ(get({.dgid = g3, .sgid = g2, .pkey = PKey{0x7FFF}}, kSgid | kDgid | kPKey)
                .record<PathRecord>()
                .pkey,
            kDefaultPKey);
  EXPECT_EQ(get({.dgid = g3, .sgid = g2, .pkey = PKey{}}, kSgid | kDgid | kPKey).status,
            code(SaStatus::RequestInvalid));
}

TEST_F(SaPaths, BetweenTwoLimitedMembersAreNone) {  // §10.9.3
  lab.control.model.port(lab.h2).pkeys[0] = PKey{0x7FFF};
  lab.control.model.port(lab.h3).pkeys[0] = PKey{0x7FFF};
  ++lab.control.model.generation;
  EXPECT_EQ(get({.dgid = g3, .sgid = g2}, kSgid | kDgid).status, code(SaStatus::NoRecords));
  EXPECT_EQ(get({.dgid = g1, .sgid = g2}, kSgid | kDgid).record<PathRecord>().pkey, PKey{0x7FFF});
}

TEST_F(SaPaths, AreHiddenFromWhoIsInNeitherPartition) {
  EXPECT_EQ(get({.dgid = g3, .sgid = g1}, kSgid | kDgid, SaLab::kH4).status,
            code(SaStatus::NoRecords));
  EXPECT_EQ(lab.get(SaLab::kH4, SaAttribute::PathRecord, PathRecord{.dgid = g3, .sgid = g1},
                    kSgid | kDgid, 1)
                .status,
            0);
}

TEST_F(SaPaths, MeetTheSelectorsOrAreNone) {
  SubnetPort& trunk = lab.control.model.node(lab.s1).ports[3];
  trunk.info.neighbor_mtu = verbs::Mtu::Mtu1024;
  trunk.info.link_speed_active = 1;  // 4x SDR: 10 Gb/s
  const auto ask = [&](PathRecord wanted, std::uint64_t mask) {
    wanted.sgid = g1;
    wanted.dgid = g3;
    wanted.dlid = SaLab::kH3;
    return get(wanted, kSgid | kDgid | kDlid | mask);
  };
  constexpr auto kMtu = kComponent<PathRecord, "Mtu"> | kComponent<PathRecord, "MtuSelector">;
  constexpr auto kRate = kComponent<PathRecord, "Rate"> | kComponent<PathRecord, "RateSelector">;
  constexpr auto kLife =
      kComponent<PathRecord, "PacketLifeTime"> | kComponent<PathRecord, "PacketLifeTimeSelector">;
  EXPECT_EQ(ask({}, 0).record<PathRecord>().mtu, 3);
  EXPECT_EQ(ask({}, 0).record<PathRecord>().rate, 3);
  EXPECT_EQ(ask({.mtu_selector = Selector::GreaterThan, .mtu = 3}, kMtu).status,
            code(SaStatus::NoRecords));
  EXPECT_EQ(ask({.mtu_selector = Selector::LessThan, .mtu = 3}, kMtu).record<PathRecord>().mtu, 2);
  EXPECT_EQ(ask({.mtu_selector = Selector::Exactly, .mtu = 1}, kMtu).record<PathRecord>().mtu, 1);
  EXPECT_EQ(ask({.mtu_selector = Selector::Exactly, .mtu = 9}, kMtu).status,
            code(SaStatus::RequestInvalid));
  EXPECT_EQ(ask({.rate_selector = Selector::Exactly, .rate = 7}, kRate).status,
            code(SaStatus::NoRecords));
  EXPECT_EQ(ask({.rate_selector = Selector::LessThan, .rate = 3}, kRate).record<PathRecord>().rate,
            5);
  EXPECT_EQ(ask({.rate_selector = Selector::Exactly, .rate = 60}, kRate).status,
            code(SaStatus::RequestInvalid));
  EXPECT_EQ(
      ask({.packet_life_time_selector = Selector::LessThan, .packet_life_time = 16}, kLife).status,
      code(SaStatus::NoRecords));
  EXPECT_EQ(ask({.packet_life_time_selector = Selector::Exactly, .packet_life_time = 18}, kLife)
                .record<PathRecord>()
                .packet_life_time,
            18);
  EXPECT_EQ(
      ask({.mtu_selector = Selector::GreaterThan, .mtu = 3}, kComponent<PathRecord, "Mtu">).status,
      0)
      << "a value without its selector says nothing";
  EXPECT_EQ(ask({.sl = ServiceLevel{1}}, kComponent<PathRecord, "SL">).status,
            code(SaStatus::NoRecords));
  EXPECT_EQ(ask({.raw_traffic = true}, kComponent<PathRecord, "RawTraffic">).status,
            code(SaStatus::NoRecords));
}

TEST_F(SaPaths, ReversibleOnesHaveAWayBack) {
  lab.control.model.node(lab.s2).forwarding[1] = wire::kNoForwardingPort;
  constexpr auto kReversible = kComponent<PathRecord, "Reversible">;
  EXPECT_EQ(get({.dgid = g3, .sgid = g1, .reversible = true}, kSgid | kDgid | kReversible).status,
            code(SaStatus::NoRecords));
  EXPECT_FALSE(get({.dgid = g3, .sgid = g1}, kSgid | kDgid).record<PathRecord>().reversible);
}

TEST_F(SaPaths, RepeatWhatTheRequestSaysOfItsFlow) {
  PathRecord wanted{.dgid = g3, .sgid = g1, .flow_label = 0x12345, .tclass = 9, .qos_class = 3};
  wanted.set_service_id(0x1122'3344'5566'7788);
  const auto path =
      get(wanted, kSgid | kDgid | kComponent<PathRecord, "FlowLabel"> |
                      kComponent<PathRecord, "TClass"> | kComponent<PathRecord, "QoSClass"> |
                      kComponent<PathRecord, "ServiceID8MSB"> |
                      kComponent<PathRecord, "ServiceID56LSB">)
          .record<PathRecord>();
  EXPECT_EQ(path.flow_label, 0x12345U);
  EXPECT_EQ(path.tclass, 9);
  EXPECT_EQ(path.service_id(), 0x1122'3344'5566'7788U);
}

TEST_F(SaPaths, ToAMulticastGidHaveTheGroupsValues) {
  const Gid broadcast = ipoib_broadcast_mgid(kDefaultPKey);
  const auto path = get({.dgid = broadcast, .sgid = g1}, kSgid | kDgid).record<PathRecord>();
  EXPECT_EQ(path.dlid, kFirstMulticastLid);
  EXPECT_EQ(path.mtu, 4);
  EXPECT_EQ(path.slid, SaLab::kH1);
  EXPECT_EQ(get({.dgid = broadcast, .sgid = g4}, kSgid | kDgid, SaLab::kH4).status,
            code(SaStatus::NoRecords));
  EXPECT_EQ(
      get({.dgid = broadcast, .sgid = g1, .mtu_selector = Selector::GreaterThan, .mtu = 4},
          kSgid | kDgid | kComponent<PathRecord, "Mtu"> | kComponent<PathRecord, "MtuSelector">)
          .status,
      code(SaStatus::NoRecords));
}

class SaMultiPaths : public SaPaths {
 protected:
  using Multi = wire::MultiPathRecord;
  [[nodiscard]] Reported multi(Multi wanted, const std::vector<Gid>& sources,
                               const std::vector<Gid>& destinations, std::uint64_t mask = 0) {
    wanted.sgid_count = static_cast<std::uint8_t>(sources.size());
    wanted.dgid_count = static_cast<std::uint8_t>(destinations.size());
    std::vector<std::byte> data(24);
    const auto packed = wire::pack(wanted);
    std::copy(packed.begin(), packed.end(), data.begin());
    for (const auto* const list : {&sources, &destinations}) {
      for (const Gid& gid : *list) {
        data.insert(data.end(), gid.octets().begin(), gid.octets().end());
      }
    }
    return lab.ask(SaLab::kH1, MadMethod::GetMulti, SaAttribute::MultiPathRecord, data,
                   mask | kComponent<Multi, "SGIDCount"> | kComponent<Multi, "DGIDCount">);
  }
};

TEST_F(SaMultiPaths, AreBetweenEachSourceAndEachDestination) {
  const Reported reported =
      multi({.path_count = 1}, {g1, g2}, {g3, g2}, kComponent<Multi, "NumbPath">);
  EXPECT_EQ(reported.header.header.method, MadMethod::GetMultiResp);
  EXPECT_EQ(reported.header.header.attribute_id,
            static_cast<std::uint16_t>(SaAttribute::PathRecord));  // o15-0.2.7
  const auto paths = reported.records<PathRecord>();
  ASSERT_EQ(paths.size(), 4U);
  EXPECT_EQ(paths[0].sgid, g1);
  EXPECT_EQ(paths[0].dgid, g3);
  EXPECT_EQ(paths[3].sgid, g2);
  EXPECT_EQ(paths[3].dgid, g2);
}

TEST_F(SaMultiPaths, OfManyGidsComeByRmpp) {
  const std::vector<Gid> many(20, g2);
  EXPECT_EQ(multi({.path_count = 1}, many, {g3}, kComponent<Multi, "NumbPath">)
                .records<PathRecord>()
                .size(),
            20U);
}

TEST_F(SaMultiPaths, CheckTheirCounts) {
  EXPECT_EQ(multi({}, {}, {g3}).status, code(SaStatus::RequestInsufficientComponents));
  Multi liar{.sgid_count = 200, .dgid_count = 200};
  EXPECT_EQ(lab.ask(SaLab::kH1, MadMethod::GetMulti, SaAttribute::MultiPathRecord, wire::pack(liar),
                    kComponent<Multi, "SGIDCount"> | kComponent<Multi, "DGIDCount">)
                .status,
            code(SaStatus::RequestInvalid));
  EXPECT_EQ(multi(
                {
  },
                {Gid{0xFEC0'0000'0000'0001, Guid{1}}}, {g3})
                .status,
            code(SaStatus::RequestInvalidGid));
}

TEST_F(SaMultiPaths, MeetSelectors) {
  EXPECT_TRUE(multi({.sl = ServiceLevel{5}}, {g1}, {g3}, kComponent<Multi, "SL">)
                  .records<PathRecord>()
                  .empty());
}

}  // namespace
}  // namespace weft::subnet
