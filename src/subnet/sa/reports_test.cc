// Subscriptions and the reports that follow (IBTA vol 1 §13.4.11, §15.4.3).

#include <gtest/gtest.h>

#include "subnet/testing/sa_lab.h"
#include "wire/mad/inform_info.h"
#include "wire/mad/mc_member_record.h"
#include "wire/mad/notice_details.h"

namespace weft::subnet {
namespace {

using wire::InformInfo;
using wire::kComponent;
using wire::SaAttribute;
using wire::SaStatus;
using wire::Trap;

class SaReports : public ::testing::Test {
 protected:
  [[nodiscard]] static InformInfo info(std::uint16_t trap = 0xFFFF) {
    return {.lid_range_begin = kPermissiveLid,
            .is_generic = 1,
            .subscribe = 1,
            .type = 0xFFFF,
            .trap_number = trap,
            .producer_type = 0xFF'FFFF};
  }
  [[nodiscard]] static InformInfo info(Trap trap) { return info(static_cast<std::uint16_t>(trap)); }
  [[nodiscard]] Reported subscribe(Lid from, const InformInfo& wanted, std::uint64_t sm_key = 0) {
    return lab.set(from, SaAttribute::InformInfo, wanted, 0, sm_key);
  }
  void make_group(Lid from, PortId port, PKey pkey) {
    using Record = wire::McMemberRecord;
    constexpr auto kMask = kComponent<Record, "MGID"> | kComponent<Record, "PortGID"> |
                           kComponent<Record, "JoinState"> | kComponent<Record, "Q_Key"> |
                           kComponent<Record, "TClass"> | kComponent<Record, "P_Key"> |
                           kComponent<Record, "SL"> | kComponent<Record, "FlowLabel">;
    const Record record{.mgid = kGroup,
                        .port_gid = lab.gid(port),
                        .pkey = pkey,
                        .join_state = wire::JoinState::FullMember};
    ASSERT_EQ(lab.set(from, SaAttribute::McMemberRecord, record, kMask).status, 0);
  }
  void leave_group(Lid from, PortId port) {
    using Record = wire::McMemberRecord;
    constexpr auto kMask = kComponent<Record, "MGID"> | kComponent<Record, "PortGID"> |
                           kComponent<Record, "JoinState">;
    const Record record{
        .mgid = kGroup, .port_gid = lab.gid(port), .join_state = wire::JoinState::FullMember};
    ASSERT_EQ(lab.remove(from, SaAttribute::McMemberRecord, record, kMask).status, 0);
  }
  [[nodiscard]] std::vector<wire::SaNotice>& heard(Lid by) { return lab.reports[by].notices; }
  [[nodiscard]] static Gid gid_of(const wire::SaNotice& notice) {
    return wire::unpack<wire::GidNoticeDetails>(notice.notice.details).gid;
  }
  static constexpr Gid kGroup{0xFF12'0000'0000'0000, Guid{0x77}};
  SaLab lab{{.subscriptions = {.subscriptions = 4, .subscriptions_of_port = 2}}};
};

TEST_F(SaReports, AnswerASubscriptionWithItself) {
  const Reported reported = subscribe(SaLab::kH3, info(Trap::GidInService));
  ASSERT_EQ(reported.status, 0);
  EXPECT_EQ(reported.header.header.method, wire::MadMethod::GetResp);
  EXPECT_EQ(reported.record<InformInfo>().subscribe, 1);
  EXPECT_EQ(reported.record<InformInfo>().qpn, kQp1);
}

TEST_F(SaReports, TellPortsThatComeAndGo) {  // traps 64 and 65
  ASSERT_EQ(subscribe(SaLab::kH3, info()).status, 0);
  const PortId h5 = add_host(lab.control.model, 5, Lid{20});
  ++lab.control.model.generation;
  lab.sa.subnet_changed({.appeared = {lab.gid(h5)}, .disappeared = {lab.gid(lab.h2)}},
                        lab.network.now);
  lab.pass(Duration::milliseconds(10));
  ASSERT_EQ(heard(SaLab::kH3).size(), 2U);
  const wire::SaNotice& in = heard(SaLab::kH3)[0];
  EXPECT_TRUE(in.notice.is_generic);
  EXPECT_EQ(in.notice.type, wire::NoticeType::SubnetManagement);
  EXPECT_EQ(in.notice.trap_number, 64);
  EXPECT_EQ(in.notice.issuer_lid, SaLab::kH1);
  EXPECT_EQ(in.issuer_gid, lab.gid(lab.h1));
  EXPECT_EQ(gid_of(in), lab.gid(h5));
  EXPECT_EQ(heard(SaLab::kH3)[1].notice.trap_number, 65);
  EXPECT_EQ(gid_of(heard(SaLab::kH3)[1]), lab.gid(lab.h2));
}

TEST_F(SaReports, TellGroupsThatComeAndGo) {  // traps 66 and 67
  ASSERT_EQ(subscribe(SaLab::kH3, info()).status, 0);
  make_group(SaLab::kH2, lab.h2, kDefaultPKey);
  leave_group(SaLab::kH2, lab.h2);
  ASSERT_EQ(heard(SaLab::kH3).size(), 2U);
  EXPECT_EQ(heard(SaLab::kH3)[0].notice.trap_number, 66);
  EXPECT_EQ(gid_of(heard(SaLab::kH3)[0]), kGroup);
  EXPECT_EQ(heard(SaLab::kH3)[1].notice.trap_number, 67);
}

TEST_F(SaReports, ForwardWhatTheManagerWasTold) {
  ASSERT_EQ(subscribe(SaLab::kH3, info(Trap::LinkStateChange)).status, 0);
  wire::Notice notice{.type = wire::NoticeType::Urgent,
                      .producer_type = 2,
                      .trap_number = 128,
                      .issuer_lid = SaLab::kS1};
  lab.sa.trap_received(notice, lab.network.now);
  notice.trap_number = 144;
  lab.sa.trap_received(notice, lab.network.now);
  lab.pass(Duration::milliseconds(10));
  ASSERT_EQ(heard(SaLab::kH3).size(), 1U);
  EXPECT_EQ(heard(SaLab::kH3)[0].notice.trap_number, 128);
  EXPECT_EQ(heard(SaLab::kH3)[0].issuer_gid, lab.gid({lab.s1, PortNumber{}}));
}

TEST_F(SaReports, StopWhenTheyAreUnsubscribed) {
  ASSERT_EQ(subscribe(SaLab::kH3, info()).status, 0);
  InformInfo stop = info();
  stop.subscribe = 0;
  stop.qpn = kQp1;
  EXPECT_EQ(subscribe(SaLab::kH2, stop).status, code(SaStatus::RequestInvalid))
      << "not its subscription";
  EXPECT_EQ(subscribe(SaLab::kH3, stop).status, 0);
  EXPECT_EQ(subscribe(SaLab::kH3, stop).status, code(SaStatus::RequestInvalid));
  make_group(SaLab::kH2, lab.h2, kDefaultPKey);
  EXPECT_TRUE(heard(SaLab::kH3).empty());
}

TEST_F(SaReports, AreSentAgainUntilTheSubscriberIsTakenForGone) {
  ASSERT_EQ(subscribe(SaLab::kH3, info()).status, 0);
  lab.reports[SaLab::kH3].is_silent = true;
  make_group(SaLab::kH2, lab.h2, kDefaultPKey);
  lab.pass(Duration::seconds(10));
  EXPECT_EQ(heard(SaLab::kH3).size(), 4U) << "once and three retries";
  EXPECT_TRUE(lab.sa.subscriptions().all().empty());
  EXPECT_EQ(lab.sa.counters().subscribers_lost, 1U);
}

TEST_F(SaReports, GoWithTheSubscribersPort) {
  ASSERT_EQ(subscribe(SaLab::kH3, info()).status, 0);
  lab.sa.subnet_changed({.disappeared = {lab.gid(lab.h3)}}, lab.network.now);
  EXPECT_TRUE(lab.sa.subscriptions().all().empty());
}

TEST_F(SaReports, OfKeysAreForTrustedSubscribers) {  // C15-0.2-1.16
  EXPECT_EQ(subscribe(SaLab::kH3, info(Trap::BadPKey)).status, code(SaStatus::RequestDenied));
  EXPECT_EQ(subscribe(SaLab::kH3, info()).status, 0);
  EXPECT_EQ(subscribe(SaLab::kH2, info(Trap::BadPKey), 1).status, 0);
  lab.sa.trap_received({.type = wire::NoticeType::Security,
                        .producer_type = 1,
                        .trap_number = 257,
                        .issuer_lid = SaLab::kH3},
                       lab.network.now);
  lab.pass(Duration::milliseconds(10));
  EXPECT_TRUE(heard(SaLab::kH3).empty());
  EXPECT_EQ(heard(SaLab::kH2).size(), 1U);
}

TEST_F(SaReports, TellOnlyOfTheSubscribersPartitions) {
  ASSERT_EQ(subscribe(SaLab::kH4, info()).status, 0);
  make_group(SaLab::kH2, lab.h2, kDefaultPKey);
  const PortId h5 = add_host(lab.control.model, 5, Lid{20});
  ++lab.control.model.generation;
  lab.sa.subnet_changed({.appeared = {lab.gid(h5)}}, lab.network.now);
  lab.sa.trap_received({.trap_number = 128, .issuer_lid = SaLab::kS1}, lab.network.now);
  lab.pass(Duration::milliseconds(10));
  EXPECT_TRUE(heard(SaLab::kH4).empty());
  leave_group(SaLab::kH2, lab.h2);
  heard(SaLab::kH4).clear();
  make_group(SaLab::kH2, lab.h2, SaLab::kOtherPKey);
  ASSERT_EQ(heard(SaLab::kH4).size(), 1U);
  EXPECT_EQ(heard(SaLab::kH4)[0].notice.trap_number, 66);
}

TEST_F(SaReports, RefuseSubscriptionsThatMeanNothing) {
  InformInfo wrong = info();
  wrong.subscribe = 2;
  EXPECT_EQ(subscribe(SaLab::kH3, wrong).status, code(SaStatus::RequestInvalid));
  wrong = info();
  wrong.lid_range_begin = Lid{9};
  wrong.lid_range_end = Lid{3};
  EXPECT_EQ(subscribe(SaLab::kH3, wrong).status, code(SaStatus::RequestInvalid));
  wrong = info();
  wrong.gid = Gid{kDefaultGidPrefix, Guid{0xDEAD}};
  EXPECT_EQ(subscribe(SaLab::kH3, wrong).status, code(SaStatus::RequestInvalidGid));
}

TEST_F(SaReports, HaveALimitForEachPort) {
  ASSERT_EQ(subscribe(SaLab::kH3, info()).status, 0);
  ASSERT_EQ(subscribe(SaLab::kH3, info(Trap::GidInService)).status, 0);
  EXPECT_EQ(subscribe(SaLab::kH3, info(Trap::GidOutOfService)).status, code(SaStatus::NoResources));
  EXPECT_EQ(subscribe(SaLab::kH3, info()).status, 0) << "again";
  EXPECT_EQ(subscribe(SaLab::kH2, info()).status, 0);
}

TEST_F(SaReports, AreListedAsInformInfoRecords) {
  using Record = wire::InformInfoRecord;
  ASSERT_EQ(subscribe(SaLab::kH3, info()).status, 0);
  ASSERT_EQ(subscribe(SaLab::kH3, info(Trap::GidInService)).status, 0);
  ASSERT_EQ(subscribe(SaLab::kH4, info()).status, 0);
  const auto seen = lab.table<Record>(SaLab::kH1, SaAttribute::InformInfoRecord).records<Record>();
  ASSERT_EQ(seen.size(), 2U) << "h4 is of another partition";
  EXPECT_EQ(seen[0].subscriber_gid, lab.gid(lab.h3));
  EXPECT_EQ(seen[0].enumeration, 0);
  EXPECT_EQ(seen[1].enumeration, 1);
  EXPECT_EQ(seen[1].inform_info.trap_number, 64);
  EXPECT_EQ(
      lab.table(SaLab::kH1, SaAttribute::InformInfoRecord,
                Record{.subscriber_gid = lab.gid(lab.h4)}, kComponent<Record, "SubscriberGID">, 1)
          .records<Record>()
          .size(),
      1U);
}

}  // namespace
}  // namespace weft::subnet
