// Services as clients register them (IBTA vol 1 §15.2.5.14).

#include <gtest/gtest.h>

#include "subnet/testing/sa_lab.h"

namespace weft::subnet {
namespace {

using wire::kComponent;
using Record = wire::ServiceRecord;
using wire::SaAttribute;
using wire::SaStatus;

constexpr auto kName = kComponent<Record, "ServiceID"> | kComponent<Record, "ServiceGID">;
constexpr auto kLease = kComponent<Record, "ServiceLease">;
constexpr auto kKey = kComponent<Record, "ServiceKey">;
constexpr auto kPKey = kComponent<Record, "ServiceP_Key">;

class SaServiceRecords : public ::testing::Test {
 protected:
  [[nodiscard]] Record service(std::uint64_t id = 0x77) const {
    return {
        .service_id = id, .service_gid = lab.gid(lab.h2), .service_data8 = {1, 2, 3}
    };
  }
  [[nodiscard]] Reported set(Lid from, const Record& record, std::uint64_t mask = kName) {
    return lab.set(from, SaAttribute::ServiceRecord, record, mask);
  }
  [[nodiscard]] Reported remove(Lid from, const Record& record, std::uint64_t mask = kName) {
    return lab.remove(from, SaAttribute::ServiceRecord, record, mask);
  }
  [[nodiscard]] Reported get(Lid from, std::uint64_t sm_key = 0) {
    return lab.get(from, SaAttribute::ServiceRecord, service(), kName, sm_key);
  }
  SaLab lab{{.services = {.services = 8, .services_of_port = 2}}};
};

TEST_F(SaServiceRecords, LiveAsLongAsTheirLease) {  // T-SA-5
  Record record = service();
  record.service_lease = 2;
  ASSERT_EQ(set(SaLab::kH2, record, kName | kLease).status, 0);
  EXPECT_NE(lab.sa.deadline(), Instant::never());
  lab.pass(Duration::milliseconds(900));
  const Reported reported = get(SaLab::kH3);
  ASSERT_EQ(reported.status, 0);
  EXPECT_EQ(reported.record<Record>().service_data8[2], 3);
  EXPECT_EQ(reported.record<Record>().service_lease, 1U) << "what is left of it";
  lab.pass(Duration::seconds(1));
  EXPECT_EQ(get(SaLab::kH3).status, code(SaStatus::NoRecords));
  EXPECT_EQ(lab.sa.deadline(), Instant::never());
}

TEST_F(SaServiceRecords, WithoutALeaseStayUntilTheyAreDeleted) {  // T-SA-5
  const Reported reported = set(SaLab::kH2, service());
  ASSERT_EQ(reported.status, 0);
  EXPECT_EQ(reported.header.header.method, wire::MadMethod::GetResp);
  EXPECT_EQ(reported.record<Record>().service_lease, wire::kIndefiniteLease);
  EXPECT_EQ(reported.record<Record>().service_pkey, kDefaultPKey);
  EXPECT_EQ(remove(SaLab::kH2, service()).status, 0);
  EXPECT_EQ(get(SaLab::kH2).status, code(SaStatus::NoRecords));
  EXPECT_EQ(remove(SaLab::kH2, service()).status, code(SaStatus::NoRecords));
}

TEST_F(SaServiceRecords, AreReplacedUnderTheirName) {
  ASSERT_EQ(set(SaLab::kH2, service()).status, 0);
  Record again = service();
  again.service_data8[0] = 99;
  ASSERT_EQ(set(SaLab::kH2, again).status, 0);
  EXPECT_EQ(lab.sa.services().all().size(), 1U);
  EXPECT_EQ(get(SaLab::kH2).record<Record>().service_data8[0], 99);
}

TEST_F(SaServiceRecords, NeedAName) {
  EXPECT_EQ(set(SaLab::kH2, service(), kComponent<Record, "ServiceID">).status,
            code(SaStatus::RequestInsufficientComponents));
  EXPECT_EQ(remove(SaLab::kH2, service(), 0).status, code(SaStatus::RequestInsufficientComponents));
}

TEST_F(SaServiceRecords, AreRemovedByWhatNamesOneOfTheRequesters) {  // osmtest -f s
  Record record = service(1);
  record.service_name[0] = std::byte{'x'};
  Record other = service(2);
  other.service_name[0] = std::byte{'y'};
  ASSERT_EQ(set(SaLab::kH2, record, kName | kComponent<Record, "ServiceName">).status, 0);
  ASSERT_EQ(set(SaLab::kH2, other, kName | kComponent<Record, "ServiceName">).status, 0);
  EXPECT_EQ(remove(SaLab::kH2, record, kComponent<Record, "ServiceGID">).status,
            code(SaStatus::TooManyRecords));
  EXPECT_EQ(remove(SaLab::kH3, record, kComponent<Record, "ServiceName">).status,
            code(SaStatus::NoRecords));
  EXPECT_EQ(remove(SaLab::kH2, record, kComponent<Record, "ServiceName">).status, 0);
  EXPECT_EQ(lab.sa.services().all().size(), 1U);
  EXPECT_EQ(remove(SaLab::kH2, record, kComponent<Record, "ServiceName">).status,
            code(SaStatus::NoRecords));
}

TEST_F(SaServiceRecords, BelongToAPartition) {
  Record record = service();
  record.service_pkey = SaLab::kOtherPKey;
  EXPECT_EQ(set(SaLab::kH3, record, kName | kPKey).status, code(SaStatus::RequestInvalid));
  ASSERT_EQ(set(SaLab::kH2, record, kName | kPKey).status, 0);
  EXPECT_EQ(get(SaLab::kH3).status, code(SaStatus::NoRecords));
  EXPECT_EQ(get(SaLab::kH4).status, 0);
  EXPECT_EQ(get(SaLab::kH3, 1).status, 0) << "trusted";
  record.service_pkey = PKey{0x8000};
  EXPECT_EQ(set(SaLab::kH2, record, kName | kPKey).status, code(SaStatus::RequestInvalid));
}

TEST_F(SaServiceRecords, WithoutAKeyAreTheirPortsOnly) {
  ASSERT_EQ(set(SaLab::kH2, service()).status, 0);
  EXPECT_EQ(set(SaLab::kH3, service()).status, code(SaStatus::RequestDenied));
  EXPECT_EQ(remove(SaLab::kH3, service()).status, code(SaStatus::RequestDenied));
  EXPECT_EQ(lab.remove(SaLab::kH3, SaAttribute::ServiceRecord, service(), kName, 1).status, 0);
}

TEST_F(SaServiceRecords, WithAKeyAreWhoseWhoKnowsIt) {
  Record record = service();
  record.service_key[0] = std::byte{0x5E};
  const auto reported = set(SaLab::kH2, record, kName | kKey);
  ASSERT_EQ(reported.status, 0);
  EXPECT_EQ(reported.record<Record>().service_key[0], std::byte{});  // C15-0.1.14, osmtest -f s
  EXPECT_EQ(get(SaLab::kH3).record<Record>().service_key[0], std::byte{});
  EXPECT_EQ(get(SaLab::kH3, 1).record<Record>().service_key[0], std::byte{0x5E});
  EXPECT_EQ(remove(SaLab::kH2, record).status, code(SaStatus::RequestDenied))
      << "a key that is not named does not count";
  EXPECT_EQ(remove(SaLab::kH3, record, kName | kKey).status, 0);
}

TEST_F(SaServiceRecords, HaveALimitForEachPort) {
  ASSERT_EQ(set(SaLab::kH2, service(1)).status, 0);
  ASSERT_EQ(set(SaLab::kH2, service(2)).status, 0);
  EXPECT_EQ(set(SaLab::kH2, service(3)).status, code(SaStatus::NoResources));
  EXPECT_EQ(set(SaLab::kH2, service(2)).status, 0);
  EXPECT_EQ(set(SaLab::kH3, service(3)).status, 0);
}

TEST_F(SaServiceRecords, AreFoundByAnyComponent) {
  Record record = service();
  record.service_name[0] = std::byte{'x'};
  ASSERT_EQ(set(SaLab::kH2, record).status, 0);
  ASSERT_EQ(set(SaLab::kH2, service(0x78)).status, 0);
  const auto count = [&](const Record& wanted, std::uint64_t mask) {
    return lab.table(SaLab::kH1, SaAttribute::ServiceRecord, wanted, mask).records<Record>().size();
  };
  EXPECT_EQ(count({}, 0), 2U);
  EXPECT_EQ(count(record, kComponent<Record, "ServiceName">), 1U);
  EXPECT_EQ(count({.service_data8 = {1}}, kComponent<Record, "ServiceData8">), 2U);
  EXPECT_EQ(count({.service_data8 = {2}}, kComponent<Record, "ServiceData8">), 0U);
}

}  // namespace
}  // namespace weft::subnet
