// Alias GUIDs as ports ask for them (IBTA vol 1 §15.2.5.18).

#include <gtest/gtest.h>

#include "subnet/testing/sa_lab.h"
#include "wire/mad/sa_table_records.h"

namespace weft::subnet {
namespace {

using wire::kComponent;
using Record = wire::GuidInfoRecord;
using wire::SaAttribute;
using wire::SaStatus;

constexpr auto kBlock = kComponent<Record, "LID"> | kComponent<Record, "BlockNum">;
constexpr auto guid_bit(unsigned index) { return kComponent<Record, "GUID"> << index; }

class SaGuids : public ::testing::Test {
 protected:
  [[nodiscard]] static Record wanted(unsigned index, Guid guid, std::uint8_t block = 0) {
    Record record{.lid = SaLab::kH3, .block = block};
    record.guid_info.guids[index] = guid;
    return record;
  }
  [[nodiscard]] Reported set(Lid from, const Record& record, std::uint64_t mask,
                             std::uint64_t sm_key = 0) {
    return lab.set(from, SaAttribute::GuidInfoRecord, record, mask, sm_key);
  }
  [[nodiscard]] Guid alias(std::size_t index) const {
    return lab.control.model.port(lab.h3).guids[index];
  }
  SaLab lab;
};

TEST_F(SaGuids, AreGivenAsAsked) {
  const Reported reported = set(SaLab::kH3, wanted(1, Guid{0xA1}, 1), kBlock | guid_bit(1));
  ASSERT_EQ(reported.status, 0);
  EXPECT_EQ(reported.record<Record>().guid_info.guids[1], Guid{0xA1});
  EXPECT_EQ(alias(9), Guid{0xA1});
}

TEST_F(SaGuids, AreChosenBySaWhenNoneIsNamed) {
  const auto record =
      set(SaLab::kH3, wanted(0, {}), kBlock | guid_bit(1) | guid_bit(2)).record<Record>();
  EXPECT_NE(record.guid_info.guids[1], Guid{});
  EXPECT_NE(record.guid_info.guids[2], Guid{});
  EXPECT_NE(record.guid_info.guids[1], record.guid_info.guids[2]);
  EXPECT_EQ(alias(1), record.guid_info.guids[1]);
  EXPECT_EQ(record.guid_info.guids[0], Guid{kPortGuid + 3}) << "not asked for: as it is";
}

TEST_F(SaGuids, ThatOthersHaveAreDeclined) {
  const Reported reported = set(SaLab::kH3, wanted(1, Guid{kPortGuid + 2}), kBlock | guid_bit(1));
  EXPECT_EQ(reported.status, 0);
  EXPECT_EQ(reported.record<Record>().guid_info.guids[1], Guid{});
  EXPECT_EQ(alias(1), Guid{});
  Record twice = wanted(1, Guid{0xA1});
  twice.guid_info.guids[2] = Guid{0xA1};
  const auto once =
      set(SaLab::kH3, twice, kBlock | guid_bit(1) | guid_bit(2)).record<Record>().guid_info;
  EXPECT_EQ(once.guids[1], Guid{0xA1});
  EXPECT_EQ(once.guids[2], Guid{});
}

TEST_F(SaGuids, ThatAnotherIsToLoseMove) {
  ASSERT_EQ(set(SaLab::kH3, wanted(1, Guid{0xA1}), kBlock | guid_bit(1)).status, 0);
  lab.sa.subnet_changed({}, lab.network.now);  // it knows whose it is
  const Record for_h2 = [] {
    Record record{.lid = SaLab::kH2, .block = 0};
    record.guid_info.guids[1] = Guid{0xA1};
    return record;
  }();
  const auto told = [&] {
    return set(SaLab::kH2, for_h2, kBlock | guid_bit(1)).record<Record>().guid_info.guids[1];
  };
  EXPECT_EQ(told(), Guid{});
  std::vector<Guid> without = lab.control.model.port(lab.h3).guids;
  without[1] = Guid{};
  lab.control.asked_guids[lab.h3] = without;
  EXPECT_EQ(told(), Guid{0xA1});
}

TEST_F(SaGuids, AreDeleted) {
  ASSERT_EQ(set(SaLab::kH3, wanted(1, Guid{0xA1}), kBlock | guid_bit(1)).status, 0);
  const Reported reported =
      lab.remove(SaLab::kH3, SaAttribute::GuidInfoRecord, wanted(1, {}), kBlock | guid_bit(1));
  EXPECT_EQ(reported.status, 0);
  EXPECT_EQ(alias(1), Guid{});
}

TEST_F(SaGuids, ArePortsOwnBusiness) {
  EXPECT_EQ(set(SaLab::kH2, wanted(1, Guid{0xA1}), kBlock | guid_bit(1)).status,
            code(SaStatus::RequestDenied));
  EXPECT_EQ(set(SaLab::kH4, wanted(1, Guid{0xA1}), kBlock | guid_bit(1)).status,
            code(SaStatus::NoRecords));
  EXPECT_EQ(set(SaLab::kH2, wanted(1, Guid{0xA1}), kBlock | guid_bit(1), 1).status, 0);
}

TEST_F(SaGuids, AreWithinTheTableAndNeverTheFirst) {
  EXPECT_EQ(set(SaLab::kH3, wanted(0, Guid{0xA1}), kBlock | guid_bit(0)).status,
            code(SaStatus::RequestInvalid));
  EXPECT_EQ(set(SaLab::kH3, wanted(1, Guid{0xA1}, 2), kBlock | guid_bit(1)).status,
            code(SaStatus::RequestInvalid));
  EXPECT_EQ(set(SaLab::kH3, wanted(1, Guid{0xA1}), guid_bit(1)).status,
            code(SaStatus::RequestInsufficientComponents));
  Record nobody = wanted(1, Guid{0xA1});
  nobody.lid = Lid{99};
  EXPECT_EQ(set(SaLab::kH3, nobody, kBlock | guid_bit(1)).status, code(SaStatus::NoRecords));
}

TEST_F(SaGuids, ThatThePortDoesNotTakeAreNoResources) {
  lab.control.refuses_guids = true;
  EXPECT_EQ(set(SaLab::kH3, wanted(1, Guid{0xA1}), kBlock | guid_bit(1)).status,
            code(SaStatus::NoResources));
}

}  // namespace
}  // namespace weft::subnet
