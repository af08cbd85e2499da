#include <gtest/gtest.h>

#include <cstdint>

#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Answer;
using testing::Bench;
using testing::bytes;
using testing::Bytes;
using testing::cdb10;

constexpr std::uint32_t kNotReady =
    testing::sense(SenseKey::NotReady, SenseCode::InitializingCommandRequired);

TEST(UnitCommands, CapacityOfTenOctetsSaysWhenItIsTooSmall) {  // SBC-3 §5.15, §5.16
  Bench bench({.blocks = 4096, .block_bytes = 4096});
  const NexusId nexus = bench.open(1);
  const Answer ten = bench.run(nexus, cdb10(0x25, 0, 0), {}, 8);
  EXPECT_EQ(load64(ten.data, 0), 4095ull << 32 | 4096);
  Bytes cdb(16);
  store_number(cdb, 0, 2, 0x9E10);
  store_number(cdb, 10, 4, 32);
  const Answer sixteen = bench.run(nexus, cdb, {}, 32);
  ASSERT_EQ(sixteen.data.size(), 32u);
  EXPECT_EQ(load64(sixteen.data, 0), 4095u);
  EXPECT_EQ(load32(sixteen.data, 8), 4096u);
  EXPECT_EQ(load32(sixteen.data, 12), 0x0003'C000u);  // 2^3 blocks a physical one; thin, zeroes
}

TEST(UnitCommands, RequestSenseReturnsAndClearsAUnitAttention) {  // SPC-4 §6.39
  Bench bench;
  const NexusId nexus = bench.open(1, 1, true);
  const Answer first = bench.run(nexus, bytes({3, 0, 0, 0, 252, 0}), {}, 252);
  ASSERT_TRUE(first.good());
  ASSERT_EQ(first.data.size(), 18u);
  EXPECT_EQ(load8(first.data, 2), 6);
  EXPECT_EQ(load16(first.data, 12), 0x2900);
  const Answer second = bench.run(nexus, bytes({3, 1, 0, 0, 252, 0}), {}, 252);
  EXPECT_EQ(load64(second.data, 0), 0x7200'0000'0000'0000u);
  EXPECT_TRUE(bench.run(nexus, bytes({0, 0, 0, 0, 0, 0})).good());
}

TEST(UnitCommands, ReportLunsListsUnitsInBothForms) {  // SPC-4 §6.33
  Bench bench;
  const NexusId nexus = bench.open(1);
  ASSERT_TRUE(bench.target.add_unit({.lun = Lun{300}}, bench.device).has_value());
  EXPECT_EQ(bench.run(nexus, bytes({0, 0, 0, 0, 0, 0})).sense(),
            testing::sense(SenseKey::UnitAttention, SenseCode::ReportedLunsDataChanged));
  const Answer answer = bench.run(nexus, bytes({0xA0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0}), {}, 256);
  ASSERT_EQ(answer.data.size(), 24u);
  EXPECT_EQ(load32(answer.data, 0), 16u);
  EXPECT_EQ(load64(answer.data, 8), 0u);
  EXPECT_EQ(load64(answer.data, 16), 0x412C'0000'0000'0000u);
  EXPECT_EQ(bench.run(nexus, bytes({0xA0, 0, 0, 0, 0, 0, 0, 0, 0, 15, 0, 0}), {}, 15).sense(),
            testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidFieldInCdb));
}

TEST(UnitCommands, LbaStatusListsStretches) {  // SBC-3 §5.5
  Bench bench;
  const NexusId nexus = bench.open(1);
  bench.run(nexus, cdb10(0x2A, 200, 1), Bytes(512));
  Bytes cdb(16);
  store_number(cdb, 0, 2, 0x9E12);
  store_number(cdb, 2, 8, 100);
  store_number(cdb, 10, 4, 1024);
  const Answer answer = bench.run(nexus, cdb, {}, 1024);
  ASSERT_EQ(answer.data.size(), 8u + 3 * 16);
  EXPECT_EQ(load32(answer.data, 0), answer.data.size() - 4);
  EXPECT_EQ(load64(answer.data, 8), 100u);
  EXPECT_EQ(load32(answer.data, 16), 28u);
  EXPECT_EQ(load8(answer.data, 20), 1);  // deallocated
  EXPECT_EQ(load64(answer.data, 24), 128u);
  EXPECT_EQ(load8(answer.data, 36), 0);  // mapped
}

TEST(UnitCommands, ModeSelectTellsOtherNexuses) {  // SPC-4 §6.9
  Bench bench;
  const NexusId a = bench.open(1);
  const NexusId b = bench.open(2);
  Bytes list(24);
  store_number(list, 4, 2, 0x0812);
  store_number(list, 6, 1, 0x04);  // WCE
  EXPECT_TRUE(bench.run(a, bytes({0x15, 0x10, 0, 0, 24, 0}), list).good());
  EXPECT_EQ(bench.run(b, bytes({0, 0, 0, 0, 0, 0})).sense(),
            testing::sense(SenseKey::UnitAttention, SenseCode::ModeParametersChanged));
  EXPECT_TRUE(bench.run(a, bytes({0, 0, 0, 0, 0, 0})).good());
  const Answer page = bench.run(b, bytes({0x1A, 8, 8, 0, 255, 0}), {}, 255);
  EXPECT_EQ(load8(page.data, 6), 0x04);
  EXPECT_EQ(bench.run(a, bytes({0x15, 0x11, 0, 0, 24, 0}), list).sense(),
            testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidFieldInCdb));  // SP
}

TEST(UnitCommands, DescriptorSenseIsGivenWhereAskedFor) {  // SPC-4 §7.5.7: D_SENSE
  Bench bench;
  const NexusId nexus = bench.open(1);
  Bytes list(16);
  store_number(list, 4, 2, 0x0A0A);
  store_number(list, 6, 1, 0x04);
  ASSERT_TRUE(bench.run(nexus, bytes({0x15, 0x10, 0, 0, 16, 0}), list).good());
  const Answer answer = bench.run(nexus, cdb10(0x28, 5000, 1), {}, 512);
  EXPECT_EQ(load8(answer.completion.sense.octets(), 0), 0x72);
}

TEST(UnitCommands, AStoppedUnitIsNotReady) {  // SBC-3 §5.28
  Bench bench;
  const NexusId nexus = bench.open(1);
  EXPECT_TRUE(bench.run(nexus, bytes({0x1B, 0, 0, 0, 0, 0})).good());
  EXPECT_EQ(bench.device.submitted[BlockOperation::Flush], 1u);
  EXPECT_EQ(bench.run(nexus, bytes({0, 0, 0, 0, 0, 0})).sense(), kNotReady);
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 0, 1), {}, 512).sense(), kNotReady);
  EXPECT_TRUE(bench.run(nexus, bytes({0x1B, 0, 0, 0, 1, 0})).good());
  EXPECT_TRUE(bench.run(nexus, bytes({0, 0, 0, 0, 0, 0})).good());
  EXPECT_FALSE(bench.run(nexus, bytes({0x1B, 0, 0, 0, 2, 0})).good());  // LOEJ
  EXPECT_TRUE(bench.run(nexus, bytes({0x1E, 0, 0, 0, 1, 0})).good());
}

}  // namespace
}  // namespace weft::scsi
