#include "scsi/range_locks.h"

#include <gtest/gtest.h>

#include <vector>

#include "scsi/unit_attentions.h"

namespace weft::scsi {
namespace {

std::vector<int*> granted(RangeLocks<int>& locks) {
  std::vector<int*> owners;
  locks.grant([&](int* owner) { owners.push_back(owner); });
  return owners;
}

TEST(RangeLocks, ReadersShareAndWritersWaitInOrder) {
  RangeLocks<int> locks;
  int a{};
  int b{};
  int c{};
  int d{};
  EXPECT_TRUE(locks.request(&a, {.lba = 0, .blocks = 10}));
  EXPECT_TRUE(locks.request(&b, {.lba = 5, .blocks = 10}));
  EXPECT_FALSE(locks.request(&c, {.lba = 9, .blocks = 1, .writes = true}));
  EXPECT_FALSE(locks.request(&d, {.lba = 9, .blocks = 1}));  // not past the writer that waits
  locks.release(&a);
  EXPECT_TRUE(granted(locks).empty());
  locks.release(&b);
  EXPECT_EQ(granted(locks), std::vector{&c});
  locks.release(&c);
  EXPECT_EQ(granted(locks), std::vector{&d});
  locks.release(&d);
  EXPECT_TRUE(locks.empty());
}

TEST(RangeLocks, WhoGivesUpWaitingBlocksNobody) {
  RangeLocks<int> locks;
  int a{};
  int b{};
  int c{};
  locks.request(&a, {.lba = 0, .blocks = 2});
  EXPECT_FALSE(locks.request(&b, {.lba = 1, .blocks = 1, .writes = true}));
  EXPECT_FALSE(locks.request(&c, {.lba = 1, .blocks = 1}));
  locks.release(&b);
  EXPECT_EQ(granted(locks), std::vector{&c});
  EXPECT_TRUE(locks.request(&b, {.lba = 0, .blocks = 0, .writes = true}));  // no blocks at all
}

TEST(UnitAttentions, AResetReplacesOtherResetsAndWhatItImplies) {  // SAM-5 §5.14.3
  UnitAttentions pending;
  pending.establish(SenseCode::PowerOnOccurred);
  pending.establish(SenseCode::ModeParametersChanged);
  pending.establish(SenseCode::CapacityDataChanged);
  pending.establish(SenseCode::CapacityDataChanged);
  pending.establish(SenseCode::BusDeviceResetOccurred);
  EXPECT_EQ(pending.take(), SenseCode::BusDeviceResetOccurred);
  EXPECT_EQ(pending.take(), SenseCode::CapacityDataChanged);
  EXPECT_EQ(pending.take(), std::nullopt);
  EXPECT_FALSE(pending.any());
}

}  // namespace
}  // namespace weft::scsi
