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

/// A disk that is formatted with protection information.
BenchOptions protected_by(scsi::ProtectionType type) {
  BenchOptions options{.keeps_protection = true};
  options.unit.protection = type;
  return options;
}

/// WRITE (16) of block `lba` with its tuple, which nobody checks (WRPROTECT 011b).
void write_unchecked(DirectPath& path, std::uint64_t lba, ByteSpan block,
                     const scsi::ProtectionTuple& tuple) {
  Bytes data(block.begin(), block.end());
  data.resize(block.size() + scsi::kTupleBytes);
  scsi::store_tuple(MutableByteSpan{data}.subspan(block.size()), tuple);
  scsi::Cdb cdb = scsi::write_cdb({.lba = lba, .blocks = 1}, false);
  cdb[1] = std::byte{0x60};
  ASSERT_TRUE(path.bench.run(path.nexus, cdb, data, 0).status() == scsi::Status::Good);
}

void read_medium(DirectPath& path, std::uint64_t lba, MutableByteSpan octets,
                 MutableByteSpan tuple) {
  struct Client final : scsi::BlockClient {
    void handle_block_result(scsi::BlockRequest& /*request*/,
                             const scsi::BlockResult& result) override {
      EXPECT_EQ(result.status, scsi::BlockStatus::Ok);
    }
  };
  Client client;
  scsi::BlockRequest request{.operation = scsi::BlockOperation::Read,
                             .lba = lba,
                             .blocks = 1,
                             .read_into = octets,
                             .tuples_into = tuple,
                             .client = &client};
  path.bench.ram->submit(request);
}

// SBC-3 §4.22: tuples go both ways, of each type of protection, and the disk has them.
TEST(Disk, SendsProtectionInformationWithTheData) {
  for (const auto type :
       {scsi::ProtectionType::Type1, scsi::ProtectionType::Type2, scsi::ProtectionType::Type3}) {
    DirectPath path{protected_by(type)};
    Disk disk{path, {.application_tag = 0x1234}};
    ASSERT_TRUE(disk.open());
    EXPECT_EQ(disk.properties().protection, type);
    const Bytes written = pattern(600 << 10);  // of more than one command
    ASSERT_TRUE(disk.write(7 * 512, written, false));
    Bytes read(written.size());
    ASSERT_TRUE(disk.read(7 * 512, read));
    EXPECT_EQ(read, written);
    Bytes octets(512);
    Bytes tuple(scsi::kTupleBytes);
    read_medium(path, 9, octets, tuple);
    const scsi::ProtectionTuple kept = scsi::load_tuple(tuple);
    EXPECT_EQ(kept.guard, scsi::guard_of(scsi::GuardKind::Crc, octets));
    EXPECT_EQ(kept.application_tag, 0x1234);
    EXPECT_EQ(kept.reference_tag, type == scsi::ProtectionType::Type3 ? 0xFFFF'FFFF : 9U);
  }
}

// Each tag, damaged on the medium: the disk says so (10h/01h to 03h), and where it does not look,
// it is seen here.
TEST(Disk, DoesNotTakeADamagedTag) {
  const Bytes block = pattern(512);
  const scsi::ProtectionTuple good{.guard = scsi::guard_of(scsi::GuardKind::Crc, block),
                                   .application_tag = 0x1234,
                                   .reference_tag = 5};
  struct Row {
    scsi::ProtectionTuple damage;
    const char* words;
  };
  const std::vector<Row> rows{
      {{.guard = 1, .application_tag = 0, .reference_tag = 0}, "GUARD CHECK FAILED"        },
      {{.guard = 0, .application_tag = 1, .reference_tag = 0}, "application tag of block 5"},
      {{.guard = 0, .application_tag = 0, .reference_tag = 1}, "REFERENCE TAG CHECK FAILED"},
  };
  DirectPath path{protected_by(scsi::ProtectionType::Type1)};
  Disk disk{path, {.application_tag = 0x1234}};
  ASSERT_TRUE(disk.open());
  Bytes read(3 * 512UL);
  for (const Row& row : rows) {
    ASSERT_TRUE(disk.write(4 * 512, pattern(read.size()), false));
    const scsi::ProtectionTuple bad{
        .guard = static_cast<std::uint16_t>(good.guard ^ row.damage.guard),
        .application_tag =
            static_cast<std::uint16_t>(good.application_tag ^ row.damage.application_tag),
        .reference_tag = good.reference_tag ^ row.damage.reference_tag};
    write_unchecked(path, 5, block, bad);
    const auto refused = disk.read(4 * 512, read);
    ASSERT_FALSE(refused) << row.words;
    EXPECT_EQ(refused.error().code, ErrorCode::Io);
    EXPECT_NE(refused.error().reason.find(row.words), std::string::npos) << refused.error().reason;
  }
  write_unchecked(path, 5, block, good);
  EXPECT_TRUE(disk.read(4 * 512, read));
}

// What a path changes is seen on both sides of it.
TEST(Disk, SeesWhatWasDamagedOnTheWay) {
  class DamagingPath final : public DiskPath {
   public:
    explicit DamagingPath(DiskPath& below) : below_(below) {}
    DiskAnswer execute(const DiskCommand& command) override {
      Bytes out(command.data_out.begin(), command.data_out.end());
      if (damages && !out.empty()) {
        out[100] ^= std::byte{1};
      }
      const DiskAnswer answer =
          below_.execute({.cdb = command.cdb, .data_out = out, .data_in = command.data_in});
      if (damages && command.data_in.size() > 512) {
        command.data_in[100] ^= std::byte{1};
      }
      return answer;
    }
    bool damages{};

   private:
    DiskPath& below_;
  };
  DirectPath below{protected_by(scsi::ProtectionType::Type1)};
  DamagingPath path{below};
  Disk disk{path};
  Disk careless{path, {.used = false}};
  ASSERT_TRUE(disk.open() && careless.open());
  Bytes octets = pattern(1024);
  ASSERT_TRUE(disk.write(0, octets, false));
  path.damages = true;
  const auto written = disk.write(0, octets, false);
  ASSERT_FALSE(written);
  EXPECT_NE(written.error().reason.find("GUARD CHECK FAILED"), std::string::npos)
      << written.error().reason;
  const auto read = disk.read(0, octets);
  ASSERT_FALSE(read);
  EXPECT_NE(read.error().reason.find("guard of block 0"), std::string::npos) << read.error().reason;
  EXPECT_TRUE(careless.read(0, octets));
}

}  // namespace
}  // namespace weft::programs::disk
