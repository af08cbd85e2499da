#include "programs/disk/disk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <vector>

#include "scsi/testing/bench_target.h"

namespace weft::programs::disk {
namespace {

using scsi::testing::Bench;
using scsi::testing::BenchOptions;
using scsi::testing::Bytes;

/// A SCSI target without a transport. Answers that were prepared come first.
class DirectPath final : public DiskPath {
 public:
  explicit DirectPath(const BenchOptions& options = {}) : bench(options), nexus(bench.open(1)) {}

  DiskAnswer execute(const DiskCommand& command) override {
    ++commands;
    const bool is_write = command.cdb[0] == std::byte{0x8A};
    forced += is_write && (command.cdb[1] & std::byte{0x08}) != std::byte{} ? 1 : 0;
    if (!prepared.empty()) {
      const DiskAnswer answer = prepared.front();
      prepared.pop_front();
      return answer;
    }
    const auto answer =
        bench.run(nexus, Bytes{command.cdb.begin(), command.cdb.end()},
                  Bytes{command.data_out.begin(), command.data_out.end()}, command.data_in.size());
    std::ranges::copy(answer.data, command.data_in.begin());
    const ByteSpan sense = answer.completion.sense.octets();
    return {
        .kind = DiskAnswer::Kind::Answered,
        .status = answer.status(),
        .sense = {sense.begin(), sense.end()},
        .data_in_bytes = answer.data.size()
    };
  }
  void prepare(unsigned count, const DiskAnswer& answer) {
    prepared.insert(prepared.end(), count, answer);
  }

  Bench bench;
  scsi::NexusId nexus;
  std::deque<DiskAnswer> prepared;
  unsigned commands{};
  unsigned forced{};  // WRITEs with FUA
};

Bytes pattern(std::size_t bytes) {
  Bytes made(bytes);
  for (std::size_t i = 0; i < bytes; ++i) {
    made[i] = static_cast<std::byte>(i * 31 >> 3);
  }
  return made;
}

DiskAnswer check_condition(unsigned key, unsigned code, unsigned qualifier) {
  return {.kind = DiskAnswer::Kind::Answered,
          .status = scsi::Status::CheckCondition,
          .sense = scsi::testing::bytes(
              {0x70, 0, key, 0, 0, 0, 0, 10, 0, 0, 0, 0, code, qualifier, 0, 0, 0, 0})};
}

TEST(Disk, LearnsWhatItIs) {
  for (const std::uint32_t block : {512U, 4096U}) {
    DirectPath path{
        {.blocks = 3000, .block_bytes = block}
    };
    Disk disk{path};
    ASSERT_TRUE(disk.open());
    const auto& properties = disk.properties();
    EXPECT_EQ(properties.bytes(), 3000ULL * block);
    EXPECT_EQ(properties.block_bytes, block);
    EXPECT_TRUE(properties.has_unmap);
    EXPECT_TRUE(properties.has_write_same);
    EXPECT_TRUE(properties.has_fua);
    EXPECT_FALSE(properties.write_protected);
    EXPECT_EQ(properties.vendor, "WEFT");
  }
  DirectPath path{{.read_only = true}};
  Disk disk{path};
  ASSERT_TRUE(disk.open());
  EXPECT_TRUE(disk.properties().write_protected);
}

TEST(Disk, KeepsWhatIsWritten) {
  DirectPath path{{.blocks = 8192}};
  Disk disk{path};
  ASSERT_TRUE(disk.open());
  const Bytes written = pattern((2 << 20) + 512);  // of more than one command
  for (const bool force : {false, true}) {
    path.forced = 0;
    ASSERT_TRUE(disk.write(1024, written, force));
    EXPECT_EQ(path.forced, force ? 5U : 0U);
    Bytes read(written.size());
    ASSERT_TRUE(disk.read(1024, read));
    EXPECT_EQ(read, written);
  }
  const auto flushes = path.bench.device.submitted[scsi::BlockOperation::Flush];
  EXPECT_TRUE(disk.flush());
  EXPECT_EQ(path.bench.device.submitted[scsi::BlockOperation::Flush], flushes + 1);
}

TEST(Disk, ZeroesAndForgets) {
  DirectPath path;
  Disk disk{path};
  ASSERT_TRUE(disk.open());
  for (const bool trims : {false, true}) {
    ASSERT_TRUE(disk.write(0, pattern(16'384), false));
    ASSERT_TRUE(trims ? disk.trim(4'096, 8'192) : disk.zero(4'096, 8'192, false, true));
    Bytes read(16'384);
    ASSERT_TRUE(disk.read(0, read));
    Bytes wanted = pattern(16'384);
    std::fill(wanted.begin() + 4'096, wanted.begin() + 12'288, std::byte{});
    EXPECT_EQ(read, wanted) << trims;
  }
}

TEST(Disk, ZeroesByWritingWhereThereIsNoWriteSame) {
  DirectPath path;
  Disk disk{path};
  ASSERT_TRUE(disk.open());
  ASSERT_TRUE(disk.write(0, pattern(2'048), false));
  path.prepare(1, check_condition(5, 0x20, 0));
  ASSERT_TRUE(disk.zero(512, 1'024, true, false));
  Bytes read(2'048);
  ASSERT_TRUE(disk.read(0, read));
  Bytes wanted = pattern(2'048);
  std::fill(wanted.begin() + 512, wanted.begin() + 1'536, std::byte{});
  EXPECT_EQ(read, wanted);
}

TEST(Disk, RefusesWhatNoBlockFitsAndWhatIsBeyondItsEnd) {
  DirectPath path;
  Disk disk{path};
  ASSERT_TRUE(disk.open());
  Bytes octets(1'024);
  EXPECT_EQ(disk.read(100, octets).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(disk.write(0, ByteSpan{octets}.first(100), false).error().code,
            ErrorCode::InvalidArgument);
  EXPECT_EQ(disk.read(2047 * 512, octets).error().code, ErrorCode::InvalidArgument);
  EXPECT_EQ(disk.read(~std::uint64_t{511}, octets).error().code, ErrorCode::InvalidArgument);
}

TEST(Disk, SendsAgainWhatWasInterruptedOrBusyAndGivesUpInBounds) {
  DirectPath path;
  Disk disk{path};
  ASSERT_TRUE(disk.open());
  Bytes octets(512);
  path.prepare(2, {.kind = DiskAnswer::Kind::Interrupted, .reason = "the connection was lost"});
  path.prepare(2, check_condition(6, 0x29, 0));  // UNIT ATTENTION: reset
  path.prepare(2, {.kind = DiskAnswer::Kind::Answered, .status = scsi::Status::Busy});
  EXPECT_TRUE(disk.read(0, octets));
  path.commands = 0;
  path.prepare(1000, check_condition(6, 0x29, 0));
  EXPECT_EQ(disk.read(0, octets).error().code, ErrorCode::Io);
  EXPECT_LT(path.commands, 100U);
}

TEST(Disk, SaysWhyItCannot) {
  struct Row {
    DiskAnswer answer;
    ErrorCode code;
  };
  const std::vector<Row> rows{
      {check_condition(7, 0x27, 0), ErrorCode::PermissionDenied},
      {check_condition(7, 0x27, 7), ErrorCode::OutOfMemory},
      {check_condition(3, 0x0C, 0), ErrorCode::Io},
      {{.kind = DiskAnswer::Kind::Answered, .status = scsi::Status::ReservationConflict},
       ErrorCode::Busy},
      {{.kind = DiskAnswer::Kind::Gone, .reason = "given up"}, ErrorCode::Io},
  };
  DirectPath path;
  Disk disk{path};
  ASSERT_TRUE(disk.open());
  const Bytes octets(512);
  for (const Row& row : rows) {
    path.prepare(1, row.answer);
    const auto written = disk.write(0, octets, false);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, row.code) << written.error().reason;
  }
}

// Whatever a target answers is looked at before it is used.
TEST(Disk, TakesNoNonsenseForAnswers) {
  DirectPath path;
  Disk disk{path};
  path.prepare(1, {.kind = DiskAnswer::Kind::Answered, .data_in_bytes = 3});
  EXPECT_FALSE(disk.open());
  scsi::DiskProperties properties;
  Bytes data(scsi::kCapacityBytes, std::byte{0xFF});
  EXPECT_FALSE(scsi::take_capacity(data, properties));
  data.assign(scsi::kCapacityBytes, std::byte{});
  EXPECT_FALSE(scsi::take_capacity(data, properties));  // blocks of no octets
  EXPECT_FALSE(scsi::take_capacity(ByteSpan{data}.first(8), properties));
  EXPECT_FALSE(scsi::take_inquiry(Bytes(36, std::byte{0x7F}), properties));
  EXPECT_FALSE(scsi::take_mode({}, properties));
  scsi::take_page(scsi::VitalPage::BlockLimits, {}, properties);
  EXPECT_EQ(properties.max_transfer_blocks, 0U);
  EXPECT_EQ(scsi::judge(scsi::Status::CheckCondition, {}), scsi::Verdict::Failed);
  EXPECT_EQ(scsi::judge(scsi::Status::CheckCondition, scsi::testing::bytes({0x72})),
            scsi::Verdict::Done);
}

}  // namespace
}  // namespace weft::programs::disk
