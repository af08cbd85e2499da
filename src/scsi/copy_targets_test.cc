// Units as copies reach them; whole copies between units are in copy_commands_test.cc.

#include "scsi/copy_targets.h"

#include <gtest/gtest.h>

#include <optional>
#include <string_view>

#include "scsi/big_endian.h"
#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Bench;
using testing::bytes;
using testing::Bytes;
using testing::cdb10;
using testing::pattern;

CopyDesignator naa_designator(const Bytes& octets) {
  return {.code_set = 1, .association = 0, .kind = 3, .octets = octets};
}

TEST(CopyDesignator, NamesTheUnitThatInquirySaysAndNoOther) {
  const UnitOptions unit{.serial = "SN01", .naa = 0x3000'0000'0000'0007};
  Bytes naa(8);
  store_number(naa, 0, 8, unit.naa);
  EXPECT_TRUE(naa_designator(naa).names(unit));
  CopyDesignator of_port = naa_designator(naa);
  of_port.association = 1;
  EXPECT_FALSE(of_port.names(unit));
  EXPECT_FALSE(naa_designator({}).names(unit));
  EXPECT_FALSE(naa_designator(Bytes(naa.begin(), naa.end() - 1)).names(unit));
  const ParameterData text = ParameterData{}.add_text("WEFT", 8).add_text("VIRTUAL DISK", 16);
  Bytes t10(text.octets().begin(), text.octets().end());
  const CopyDesignator short_t10{.code_set = 2, .kind = 1, .octets = t10};
  EXPECT_FALSE(short_t10.names(unit));  // its serial number is missing
  for (const char letter : std::string_view{"SN01"}) {
    t10.push_back(static_cast<std::byte>(letter));
  }
  const CopyDesignator whole_t10{.code_set = 2, .kind = 1, .octets = t10};
  EXPECT_TRUE(whole_t10.names(unit));
}

TEST(UnitDirectory, FindsUnitsUntilTheyAreRemoved) {
  Bench bench;
  UnitDirectory directory{LockPolicy::None};
  const UnitOptions options{.lun = Lun{3}, .naa = 9};
  Bytes naa(8);
  store_number(naa, 0, 8, options.naa);
  directory.add(bench.unit, options);
  EXPECT_EQ(directory.find(naa_designator(naa)), bench.unit);
  directory.remove(Lun{2});
  EXPECT_EQ(directory.find(naa_designator(naa)), bench.unit);
  directory.remove(Lun{3});
  EXPECT_EQ(directory.find(naa_designator(naa)), nullptr);
  EXPECT_NE(directory.next_nexus(), directory.next_nexus());
}

struct Told final : BlockClient {
  void handle_block_result(BlockRequest& /*request*/, const BlockResult& result) override {
    status = result.status;
  }
  std::optional<BlockStatus> status;
};

TEST(CopyTarget, ReadsAndWritesAsAnyInitiatorBeyondTheLimitsOfTransports) {
  Bench bench({
      .unit = {.max_transfer_bytes = 512, .max_tasks = 1}
  });
  const NexusId nexus = bench.open(1);
  bench.device.holds = true;
  const testing::Exchange& full = bench.start(nexus, cdb10(0x28, 0, 1), {}, 512);
  Bytes data = pattern(1024, 3);
  Told told;
  {
    CopyTarget target{
        bench.unit, NexusId{99},
         {.initiator = Bench::initiator(2), .port = PortId{1}}
    };
    EXPECT_EQ(target.geometry().blocks, bench.device.geometry().blocks);
    BlockRequest write{
        .operation = BlockOperation::Write, .lba = 7, .blocks = 2, .write_from = data};
    write.client = &told;
    target.submit(write);
    EXPECT_EQ(told.status, std::nullopt);
    while (bench.device.release()) {
    }
    EXPECT_EQ(told.status, BlockStatus::Ok);
    Bytes room(1024);
    BlockRequest read{.operation = BlockOperation::Read, .lba = 7, .blocks = 2, .read_into = room};
    read.client = &told;
    bench.device.holds = false;
    target.submit(read);
    EXPECT_EQ(room, data);
    bench.device.bad_blocks[8] = BlockStatus::ReadError;
    target.submit(read);
    EXPECT_EQ(told.status, BlockStatus::ReadError);
  }
  EXPECT_TRUE(full.answer.good());
  EXPECT_EQ(bench.unit->tasks(), 0U);
}

}  // namespace
}  // namespace weft::scsi
