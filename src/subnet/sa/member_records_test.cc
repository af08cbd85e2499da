// Multicast groups as clients make, join and leave them (IBTA vol 1 §15.2.5.17).

#include <gtest/gtest.h>

#include <algorithm>

#include "subnet/testing/sa_lab.h"
#include "verbs/mtu.h"
#include "wire/mad/mc_member_record.h"

namespace weft::subnet {
namespace {

using wire::JoinState;
using wire::kComponent;
using Record = wire::McMemberRecord;
using wire::SaAttribute;
using wire::SaStatus;
using wire::Selector;

constexpr auto kMgid = kComponent<Record, "MGID">;
constexpr auto kMlid = kComponent<Record, "MLID">;
constexpr auto kJoin = kMgid | kComponent<Record, "PortGID"> | kComponent<Record, "JoinState">;
constexpr auto kCreate = kJoin | kComponent<Record, "Q_Key"> | kComponent<Record, "TClass"> |
                         kComponent<Record, "P_Key"> | kComponent<Record, "SL"> |
                         kComponent<Record, "FlowLabel">;
constexpr auto kMtu = kComponent<Record, "MtuSelector"> | kComponent<Record, "Mtu">;
constexpr auto kRate = kComponent<Record, "RateSelector"> | kComponent<Record, "Rate">;

class SaMemberships : public ::testing::Test {
 protected:
  [[nodiscard]] Record member(PortId port, Flags<JoinState> state = JoinState::FullMember) const {
    return {.mgid = kGroup,
            .port_gid = lab.gid(port),
            .qkey = QKey{0x1234},
            .pkey = kDefaultPKey,
            .join_state = state};
  }
  [[nodiscard]] Reported set(Lid from, const Record& record, std::uint64_t mask) {
    return lab.set(from, SaAttribute::McMemberRecord, record, mask);
  }
  [[nodiscard]] Reported leave(Lid from, const Record& record, std::uint64_t mask = kJoin) {
    return lab.remove(from, SaAttribute::McMemberRecord, record, mask);
  }
  [[nodiscard]] std::vector<PortId> tree(Lid mlid) {
    std::vector<PortId> ports;
    for (const MulticastMember& each : lab.control.trees[mlid]) {
      ports.push_back(each.port);
    }
    return ports;
  }
  static constexpr Gid kGroup{0xFF12'0000'0000'0000, Guid{0x77}};
  SaLab lab;
};

TEST_F(SaMemberships, TheBroadcastGroupIsThereWithEveryPortOfItsPartition) {  // RFC 4391 §4
  EXPECT_EQ(ipoib_broadcast_mgid(kDefaultPKey), (Gid{0xFF12'401B'FFFF'0000, Guid{0xFFFF'FFFF}}));
  EXPECT_EQ(tree(Lid{0xC000}), (std::vector{lab.h1, lab.h2, lab.h3}));
  const auto groups = lab.table<Record>(SaLab::kH3, SaAttribute::McMemberRecord).records<Record>();
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_EQ(groups[0].mgid, ipoib_broadcast_mgid(kDefaultPKey));
  EXPECT_EQ(groups[0].mlid, Lid{0xC000});
  EXPECT_EQ(groups[0].qkey, QKey{0x0B1B});
  EXPECT_EQ(groups[0].mtu, 4);
  EXPECT_EQ(groups[0].mtu_selector, Selector::Exactly);
  EXPECT_EQ(groups[0].scope, 2);
}

TEST_F(SaMemberships, ANewPortIsInTheBroadcastGroup) {
  const PortId h5 = add_host(lab.control.model, 5, Lid{20});
  ++lab.control.model.generation;
  lab.sa.subnet_changed({.appeared = {lab.gid(h5)}}, lab.network.now);
  EXPECT_EQ(tree(Lid{0xC000}), (std::vector{lab.h1, lab.h2, lab.h3, h5}));
}

TEST_F(SaMemberships, AreMadeByTheFirstFullMember) {
  const Reported reported = set(SaLab::kH2, member(lab.h2), kCreate);
  ASSERT_EQ(reported.status, 0);
  const auto record = reported.record<Record>();
  EXPECT_EQ(record.mgid, kGroup);
  EXPECT_EQ(record.mlid, Lid{0xC001});
  EXPECT_EQ(record.port_gid, lab.gid(lab.h2));
  EXPECT_EQ(record.join_state, Flags{JoinState::FullMember});
  EXPECT_EQ(record.mtu, 5) << "of the port";
  EXPECT_EQ(record.rate, 7);
  EXPECT_EQ(record.mtu_selector, Selector::Exactly);
  EXPECT_FALSE(record.proxy_join);
  EXPECT_EQ(tree(Lid{0xC001}), std::vector{lab.h2});
}

TEST_F(SaMemberships, AreMadeOnlyOfAllThatIsNeeded) {  // o15-0.1.9
  EXPECT_EQ(set(SaLab::kH2, member(lab.h2), kJoin).status,
            code(SaStatus::RequestInsufficientComponents));
  EXPECT_EQ(set(SaLab::kH2, member(lab.h2), kCreate & ~kMgid).status,
            code(SaStatus::RequestInsufficientComponents));
  EXPECT_EQ(set(SaLab::kH2, member(lab.h2, JoinState::NonMember), kCreate).status,
            code(SaStatus::RequestInvalid));
  EXPECT_EQ(set(SaLab::kH2, member(lab.h2, {}), kCreate).status, code(SaStatus::RequestInvalid));
  EXPECT_EQ(lab.sa.groups().groups().size(), 1U);
}

TEST_F(SaMemberships, HaveMgidsThatClientsMayChoose) {  // o15-0.1.5
  const auto status = [&](const Gid& mgid) {
    Record record = member(lab.h2);
    record.mgid = mgid;
    return set(SaLab::kH2, record, kCreate).status;
  };
  EXPECT_EQ(status(Gid{kDefaultGidPrefix, Guid{1}}), code(SaStatus::RequestInvalid));
  EXPECT_EQ(status(Gid{0xFF82'0000'0000'0000, Guid{1}}), code(SaStatus::RequestInvalid));
  EXPECT_EQ(status(Gid{0xFF12'A01B'0000'0000, Guid{1}}), code(SaStatus::RequestInvalid));
  EXPECT_EQ(status(Gid{0xFF15'A01B'0000'0000, Guid{1}}), 0);
}

TEST_F(SaMemberships, WithoutAnMgidGetOneMade) {
  Record record = member(lab.h2);
  record.mgid = {};
  const auto made = set(SaLab::kH2, record, kCreate).record<Record>();
  EXPECT_EQ(made.mgid.prefix() >> 32, 0xFF12'A01BU);
  EXPECT_EQ(made.scope, 2);
}

TEST_F(SaMemberships, TakeAnMlidThatTheJoinerNames) {
  Record record = member(lab.h2);
  record.mlid = Lid{0xC005};
  EXPECT_EQ(set(SaLab::kH2, record, kCreate | kMlid).record<Record>().mlid, Lid{0xC005});
  EXPECT_EQ(tree(Lid{0xC005}), std::vector{lab.h2});
  // Another group of the partition may share it, one of another partition may not.
  record.mgid = Gid{0xFF12'0000'0000'0000, Guid{0x78}};
  EXPECT_EQ(set(SaLab::kH2, record, kCreate | kMlid).status, 0);
  record.mgid = Gid{0xFF12'0000'0000'0000, Guid{0x79}};
  record.pkey = SaLab::kOtherPKey;
  EXPECT_EQ(set(SaLab::kH2, record, kCreate | kMlid).status, code(SaStatus::RequestInvalid));
  record.mlid = Lid{0xC000 + 1024};
  EXPECT_EQ(set(SaLab::kH2, record, kCreate | kMlid).status, code(SaStatus::RequestInvalid))
      << "no switch can forward it";
  // Joining with an MLID other than the group's is an error.
  record = member(lab.h3);
  record.mlid = Lid{0xC006};
  EXPECT_EQ(set(SaLab::kH3, record, kJoin | kMlid).status, code(SaStatus::RequestInvalid));
}

TEST_F(SaMemberships, AreJoinedInEveryState) {
  ASSERT_EQ(set(SaLab::kH2, member(lab.h2), kCreate).status, 0);
  const Reported reported = set(SaLab::kH3, member(lab.h3, JoinState::SendOnlyNonMember), kJoin);
  ASSERT_EQ(reported.status, 0);
  EXPECT_EQ(reported.record<Record>().qkey, QKey{0x1234});
  EXPECT_EQ(reported.record<Record>().mlid, Lid{0xC001});
  EXPECT_EQ(lab.control.trees[Lid{0xC001}][1].role, MulticastRole::SendOnly);
  EXPECT_EQ(
      set(SaLab::kH3, member(lab.h3, JoinState::NonMember), kJoin).record<Record>().join_state,
      Flags{JoinState::NonMember} | JoinState::SendOnlyNonMember);
  EXPECT_EQ(lab.control.trees[Lid{0xC001}][1].role, MulticastRole::Full);
}

TEST_F(SaMemberships, AreJoinedAsTheyAre) {  // o15-0.2.4
  Record made = member(lab.h2);
  made.mtu_selector = Selector::Exactly;
  made.mtu = 3;
  made.rate_selector = Selector::Exactly;
  made.rate = 3;
  ASSERT_EQ(set(SaLab::kH2, made, kCreate | kMtu | kRate).status, 0);
  const auto status = [&](auto&& change, std::uint64_t mask) {
    Record record = member(lab.h3);
    change(record);
    return set(SaLab::kH3, record, kJoin | mask).status;
  };
  const auto invalid = code(SaStatus::RequestInvalid);
  EXPECT_EQ(status([](auto& r) { r.qkey = QKey{9}; }, kComponent<Record, "Q_Key">), invalid);
  EXPECT_EQ(status([](auto& r) { r.pkey = PKey{0x8001}; }, kComponent<Record, "P_Key">), invalid);
  EXPECT_EQ(status([](auto& r) { r.pkey = PKey{}; }, kComponent<Record, "P_Key">), invalid);
  EXPECT_EQ(status([](auto& r) { r.sl = ServiceLevel{1}; }, kComponent<Record, "SL">), invalid);
  EXPECT_EQ(status([](auto& r) { r.tclass = 1; }, kComponent<Record, "TClass">), invalid);
  EXPECT_EQ(status([](auto& r) { r.flow_label = 1; }, kComponent<Record, "FlowLabel">), invalid);
  EXPECT_EQ(status(
                [](auto& r) {
                  r.mtu_selector = Selector::GreaterThan;
                  r.mtu = 3;
                },
                kMtu),
            invalid);
  EXPECT_EQ(status(
                [](auto& r) {
                  r.rate_selector = Selector::LessThan;
                  r.rate = 5;
                },
                kRate),
            invalid);
  EXPECT_EQ(status([](auto& r) { r.pkey = PKey{0x7FFF}; }, kComponent<Record, "P_Key">), 0)
      << "membership is no part of the partition";
}

TEST_F(SaMemberships, NeedPortsThatCanCarryThem) {
  ASSERT_EQ(set(SaLab::kH2, member(lab.h2), kCreate).status, 0);
  lab.control.model.port(lab.h3).info.neighbor_mtu = verbs::Mtu::Mtu1024;
  EXPECT_EQ(set(SaLab::kH3, member(lab.h3), kJoin).status, code(SaStatus::RequestInvalid));
  lab.control.model.port(lab.h3).info.neighbor_mtu = verbs::Mtu::Mtu4096;
  lab.control.model.port(lab.h3).info.link_speed_active = 1;
  EXPECT_EQ(set(SaLab::kH3, member(lab.h3), kJoin).status, code(SaStatus::RequestInvalid));
  Record fast = member(lab.h1);
  fast.mgid = Gid{0xFF12'0000'0000'0000, Guid{0x78}};
  fast.rate_selector = Selector::GreaterThan;
  fast.rate = 7;
  EXPECT_EQ(set(SaLab::kH1, fast, kCreate | kRate).status, code(SaStatus::RequestInvalid));
}

TEST_F(SaMemberships, ThatSaHasMadeItselfAreConfirmedToSlowPortsToo) {
  lab.control.model.port(lab.h3).info.link_speed_active = 1;
  Record record = member(lab.h3);
  record.mgid = ipoib_broadcast_mgid(kDefaultPKey);
  EXPECT_EQ(set(SaLab::kH3, record, kJoin).status, 0);
}

TEST_F(SaMemberships, NeedTheirPartition) {
  Record record = member(lab.h1);
  record.pkey = SaLab::kOtherPKey;
  EXPECT_EQ(set(SaLab::kH1, record, kCreate).status, code(SaStatus::RequestInvalid));
  EXPECT_EQ(set(SaLab::kH4, member(lab.h4), kCreate).status, code(SaStatus::RequestInvalid));
  EXPECT_EQ(lab.sa.groups().groups().size(), 1U) << "no group is left of it";
}

TEST_F(SaMemberships, NeedPortsOfTheSubnet) {
  Record record = member(lab.h2);
  record.port_gid = Gid{kDefaultGidPrefix, Guid{0xDEAD}};
  EXPECT_EQ(set(SaLab::kH2, record, kCreate).status, code(SaStatus::RequestInvalidGid));
  EXPECT_EQ(leave(SaLab::kH2, record).status, code(SaStatus::RequestInvalidGid));
}

TEST_F(SaMemberships, AreJoinedByProxyOnlyFromTheSamePartition) {  // o15-0.2.1
  ASSERT_EQ(set(SaLab::kH1, member(lab.h1), kCreate).status, 0);
  EXPECT_EQ(set(SaLab::kH4, member(lab.h3), kJoin).status, code(SaStatus::RequestInvalid));
  const Reported reported = set(SaLab::kH2, member(lab.h3), kJoin);
  ASSERT_EQ(reported.status, 0);
  EXPECT_TRUE(reported.record<Record>().proxy_join);
  EXPECT_EQ(set(SaLab::kH4, member(lab.h2), kJoin).status, 0) << "they share a partition";
  EXPECT_EQ(set(SaLab::kH4, member(lab.h1), kJoin).status, code(SaStatus::RequestInvalid));
  // A membership is changed by its owner only; one by proxy by any port of the partition.
  EXPECT_EQ(set(SaLab::kH2, member(lab.h1, JoinState::NonMember), kJoin).status,
            code(SaStatus::RequestInvalid));
  EXPECT_EQ(leave(SaLab::kH2, member(lab.h1)).status, code(SaStatus::RequestInvalid));
  EXPECT_EQ(leave(SaLab::kH4, member(lab.h3)).status, code(SaStatus::RequestInvalid));
  EXPECT_EQ(leave(SaLab::kH1, member(lab.h3)).status, 0);
}

TEST_F(SaMemberships, AreLeftAsTheyWereJoined) {  // o15-0.1.14
  ASSERT_EQ(set(SaLab::kH2, member(lab.h2), kCreate).status, 0);
  ASSERT_EQ(set(SaLab::kH3, member(lab.h3), kJoin).status, 0);
  EXPECT_EQ(leave(SaLab::kH3, member(lab.h3), kMgid).status,
            code(SaStatus::RequestInsufficientComponents));
  EXPECT_EQ(leave(SaLab::kH3, member(lab.h3, JoinState::NonMember)).status,
            code(SaStatus::RequestInvalid));
  EXPECT_EQ(leave(SaLab::kH3, member(lab.h3, {})).status, code(SaStatus::RequestInvalid));
  EXPECT_EQ(leave(SaLab::kH1, member(lab.h1)).status, code(SaStatus::RequestInvalid));
  const Reported reported = leave(SaLab::kH3, member(lab.h3));
  EXPECT_EQ(reported.status, 0);
  EXPECT_EQ(reported.header.header.method, wire::MadMethod::DeleteResp);
  EXPECT_TRUE(reported.record<Record>().join_state.empty());
  EXPECT_EQ(tree(Lid{0xC001}), std::vector{lab.h2});
  ASSERT_EQ(set(SaLab::kH2, member(lab.h2, JoinState::NonMember), kJoin).status, 0);
  EXPECT_EQ(leave(SaLab::kH2, member(lab.h2, JoinState::NonMember)).record<Record>().join_state,
            Flags{JoinState::FullMember});  // what is left, as osmtest -f m wants it
  EXPECT_EQ(leave(SaLab::kH3, member(lab.h3)).status, code(SaStatus::RequestInvalid));
  EXPECT_EQ(leave(SaLab::kH2, member(lab.h2)).status, 0);
  EXPECT_TRUE(tree(Lid{0xC001}).empty());
  EXPECT_EQ(leave(SaLab::kH2, member(lab.h2)).status, code(SaStatus::RequestInvalid));
}

TEST_F(SaMemberships, TellTheirMembersToTrustedRequestsOnly) {  // §15.4.1.2
  ASSERT_EQ(set(SaLab::kH2, member(lab.h2), kCreate).status, 0);
  ASSERT_EQ(set(SaLab::kH3, member(lab.h3, JoinState::NonMember), kJoin).status, 0);
  const Record wanted{.mgid = kGroup};
  const auto untrusted =
      lab.table(SaLab::kH1, SaAttribute::McMemberRecord, wanted, kMgid).records<Record>();
  ASSERT_EQ(untrusted.size(), 1U);
  EXPECT_TRUE(untrusted[0].port_gid.is_zero());
  EXPECT_TRUE(untrusted[0].join_state.empty());
  const auto trusted =
      lab.table(SaLab::kH1, SaAttribute::McMemberRecord, wanted, kMgid, 1).records<Record>();
  ASSERT_EQ(trusted.size(), 2U);
  EXPECT_EQ(trusted[0].port_gid, lab.gid(lab.h2));
  EXPECT_EQ(trusted[1].join_state, Flags{JoinState::NonMember});
  const auto one = lab.table(SaLab::kH1, SaAttribute::McMemberRecord,
                             Record{.mgid = kGroup, .port_gid = lab.gid(lab.h3)},
                             kMgid | kComponent<Record, "PortGID">, 1)
                       .records<Record>();
  ASSERT_EQ(one.size(), 1U);
  EXPECT_EQ(one[0].port_gid, lab.gid(lab.h3));
  const auto full = lab.table(SaLab::kH1, SaAttribute::McMemberRecord,
                              Record{.mgid = kGroup, .join_state = JoinState::FullMember},
                              kMgid | kComponent<Record, "JoinState">, 1)
                        .records<Record>();
  ASSERT_EQ(full.size(), 1U);
  EXPECT_EQ(full[0].port_gid, lab.gid(lab.h2));
}

TEST_F(SaMemberships, AreFoundByComponents) {
  ASSERT_EQ(set(SaLab::kH2, member(lab.h2), kCreate).status, 0);
  const auto find = [&](const Record& wanted, std::uint64_t mask, Lid from = SaLab::kH1) {
    return lab.table(from, SaAttribute::McMemberRecord, wanted, mask).records<Record>().size();
  };
  EXPECT_EQ(find({}, 0), 2U);
  EXPECT_EQ(find({.mlid = Lid{0xC001}}, kMlid), 1U);
  EXPECT_EQ(find({.mtu_selector = Selector::GreaterThan, .mtu = 4}, kMtu), 1U);
  EXPECT_EQ(find({.mlid = Lid{0xC009}}, kMlid), 0U);
  EXPECT_EQ(find({}, 0, SaLab::kH4), 0U) << "not of its partition";
  EXPECT_EQ(lab.table(SaLab::kH1, SaAttribute::McMemberRecord,
                      Record{.mtu_selector = Selector::Exactly, .mtu = 11}, kMtu)
                .status,
            code(SaStatus::RequestInvalid));
}

TEST_F(SaMemberships, GoWhenTheirPortsAreGone) {
  ASSERT_EQ(set(SaLab::kH2, member(lab.h2), kCreate).status, 0);
  ASSERT_EQ(set(SaLab::kH3, member(lab.h3, JoinState::NonMember), kJoin).status, 0);
  lab.sa.subnet_changed({.disappeared = {lab.gid(lab.h2)}}, lab.network.now);
  EXPECT_EQ(lab.sa.groups().find(kGroup), nullptr);
  EXPECT_TRUE(tree(Lid{0xC001}).empty());
}

TEST_F(SaMemberships, AreSentToTheManagerOnceUntilTheyChange) {
  ASSERT_EQ(set(SaLab::kH2, member(lab.h2), kCreate).status, 0);
  const int written = lab.control.trees_written;
  ASSERT_EQ(set(SaLab::kH2, member(lab.h2), kJoin).status, 0);
  lab.sa.subnet_changed({}, lab.network.now);
  EXPECT_EQ(lab.control.trees_written, written);
}

/// A host goes and another comes before the manager has swept twice: its port has the PortId of the
/// one that went, and is none of the tree until the manager is told.
TEST_F(SaMemberships, OfAPortInThePlaceOfAnotherAreSent) {
  const Subnet without = lab.control.model;
  const PortId h5 = add_host(lab.control.model, 5, Lid{20});
  ++lab.control.model.generation;
  const Gid gone = lab.gid(h5);
  lab.sa.subnet_changed({.appeared = {gone}}, lab.network.now);
  const int written = lab.control.trees_written;
  lab.control.model = without;
  const PortId h6 = add_host(lab.control.model, 6, Lid{21});
  ASSERT_EQ(h6, h5);
  lab.control.model.generation += 2;
  lab.sa.subnet_changed({.appeared = {lab.gid(h6)}, .disappeared = {gone}}, lab.network.now);
  EXPECT_EQ(lab.control.trees_written, written + 1);
}

TEST(SaMembershipLimits, RefuseWhatIsTooMuch) {
  SaLab lab{{.groups = {.mlids = 3, .groups = 16, .memberships_per_requester = 2}}};
  const auto make = [&](Lid from, PortId port, std::uint64_t number) {
    return lab
        .set(from, SaAttribute::McMemberRecord,
             Record{
                 .mgid = Gid{0xFF12'0000'0000'0000, Guid{number}},
                 .port_gid = lab.gid(port),
                 .pkey = kDefaultPKey,
                 .join_state = JoinState::FullMember
    },
             kCreate)
        .status;
  };
  EXPECT_EQ(make(SaLab::kH2, lab.h2, 1), 0);
  EXPECT_EQ(make(SaLab::kH2, lab.h3, 2), 0);
  EXPECT_EQ(make(SaLab::kH2, lab.h2, 1), 0) << "again";
  EXPECT_EQ(make(SaLab::kH2, lab.h2, 3), code(SaStatus::NoResources)) << "no MLID";
  EXPECT_EQ(make(SaLab::kH2, lab.h2, 2), code(SaStatus::NoResources)) << "its memberships";
  EXPECT_EQ(make(SaLab::kH3, lab.h3, 1), 0) << "others are not touched";
}

}  // namespace
}  // namespace weft::subnet
