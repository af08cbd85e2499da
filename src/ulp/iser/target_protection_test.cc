// T10-PI at a target's adapter (R-IST-4): insert, strip and pass, and damage to each tag, judged by
// the disk that does the same itself.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "scsi/disk_requests.h"
#include "ulp/iser/testing/world.h"
#include "wire/iscsi/basic_header.h"
#include "wire/protection_tuple.h"

namespace weft::iser {
namespace {

using scsi::ProtectionType;
using testing::PduLog;
using testing::World;
using wire::ProtectionTuple;
using wire::iscsi::ScsiResponse;

using Bytes = std::vector<std::byte>;

constexpr std::uint32_t kBlock = 512;
constexpr std::uint32_t kWireBlock = 520;
constexpr std::uint32_t kBlocks = 24;
constexpr std::uint32_t kFirst = 96;  // of the disk
constexpr std::uint16_t kTag = 0x1234;
// The CDB's protection field (SBC-3 Tables 78 and 112).
constexpr unsigned kNone = 0;
constexpr unsigned kChecked = 1;
constexpr unsigned kUnchecked = 3;

/// Integrity regions that the driver of the target's device was given to register; of one test at
/// a time.
unsigned registered;

Result<void> post_send_counted(core::Qp& qp, const core::SendWr& first, const core::SendWr** bad) {
  for (const core::SendWr* wr = &first; wr != nullptr; wr = wr->next) {
    registered += wr->opcode == verbs::WrOpcode::RegisterMemoryIntegrity ? 1 : 0;
  }
  return core::engine::engine_operations().post_send(qp, first, bad);
}

[[nodiscard]] core::DeviceOperations counting() {
  core::DeviceOperations operations = core::engine::engine_operations();
  operations.post_send = post_send_counted;
  return operations;
}

[[nodiscard]] core::DeviceOperations without_integrity() {
  core::DeviceOperations operations = counting();
  operations.query_device = [](core::Device& device) {
    auto attributes = core::engine::engine_operations().query_device(device);
    attributes->capabilities = attributes->capabilities.without(core::DeviceCapability::Integrity);
    return attributes;
  };
  return operations;
}

struct Answer {
  std::uint8_t status{0xFF};
  Bytes sense;
  bool operator==(const Answer&) const = default;
  [[nodiscard]] unsigned code() const {
    return sense.size() < 16
               ? 0
               : std::to_integer<unsigned>(sense[14]) << 8 | std::to_integer<unsigned>(sense[15]);
  }
};

/// An initiator that sends and takes what is on the wire as it is, and a disk of this type.
class Bench {
 public:
  Bench(ProtectionType type, const TargetOptions& target,
        core::DeviceOperations (*operations)() = counting)
      : world{1,
              {.target = target,
               .protection = type,
               .target_device = {.operations = operations}}},
        type_(type) {
    registered = 0;
    world.connect(log);
    world.login(log, {.initial_r2t = true, .immediate_data = false});
  }
  ~Bench() { world.initiator->stop(*world.connection, StopFlag::Terminate); }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  /// Sets up a READ or WRITE of all of `memory`, in the wire's form.
  void set_up(Task& task, bool writes, unsigned field, MutableByteSpan memory) {
    world.set_up(task, writes, kFirst, memory, 5'000);
    const std::size_t blocks = memory.size() / (field == kNone ? kBlock : kWireBlock);
    task.command.cdb[1] = static_cast<std::byte>(field << 5);
    task.command.cdb[7] = static_cast<std::byte>(blocks >> 8);
    task.command.cdb[8] = static_cast<std::byte>(blocks & 0xFF);
    if (type_ == ProtectionType::Type2 && field != kNone) {
      name_tags(task, writes, field, static_cast<std::uint32_t>(blocks));
    }
  }
  Answer run(bool writes, unsigned field, MutableByteSpan memory) {
    Task task;
    set_up(task, writes, field, memory);
    const auto sent = world.link().transmit(task);
    EXPECT_TRUE(sent) << sent.error().reason;
    Answer answer;
    answer.status = world.next<ScsiResponse>(log, &answer.sense).status;
    return answer;
  }
  Answer write(unsigned field, Bytes memory) { return run(true, field, memory); }
  [[nodiscard]] TargetDatamover& target() { return *world.movers.front(); }

  World world;
  PduLog log;

 private:
  /// By a CDB of 32 octets, the second half of which stands in an additional header segment.
  void name_tags(Task& task, bool writes, unsigned field, std::uint32_t blocks) const {
    const scsi::DiskExtent extent{.lba = kFirst, .blocks = blocks};
    const scsi::TransferProtection tags{.type = type_, .application_tag = kTag};
    scsi::Cdb cdb = writes ? scsi::write_cdb(extent, false, tags) : scsi::read_cdb(extent, tags);
    cdb[10] = static_cast<std::byte>(field << 5);
    std::ranges::copy(std::span{cdb}.first(16), task.command.cdb.begin());
    const auto header = wire::pack(wire::iscsi::AdditionalHeader{
        .length = 17, .type = wire::iscsi::AdditionalHeaderType::ExtendedCdb});
    task.additional_headers.assign(header.begin(), header.end());
    task.additional_headers.push_back({});
    task.additional_headers.insert(task.additional_headers.end(), cdb.begin() + 16, cdb.end());
  }

  ProtectionType type_;
};

[[nodiscard]] Bytes data_of(unsigned seed) {
  Bytes data(std::size_t{kBlocks} * kBlock);
  for (std::size_t i = 0; i < data.size(); ++i) {
    data[i] = static_cast<std::byte>((i * 13 + i / 300 + seed) & 0xFF);
  }
  return data;
}

[[nodiscard]] MutableByteSpan tuple_in(Bytes& wire, std::uint32_t block) {
  return MutableByteSpan{wire}.subspan(std::size_t{block} * kWireBlock + kBlock, scsi::kTupleBytes);
}

/// Blocks with the right tuples behind each.
[[nodiscard]] Bytes wire_of(const Bytes& data, ProtectionType type, std::uint16_t tag) {
  Bytes wire(std::size_t{kBlocks} * kWireBlock);
  for (std::uint32_t i = 0; i < kBlocks; ++i) {
    const ByteSpan block = ByteSpan{data}.subspan(std::size_t{i} * kBlock, kBlock);
    copy_bytes(MutableByteSpan{wire}.subspan(std::size_t{i} * kWireBlock), block);
    const auto tuple = wire::pack(ProtectionTuple{
        .guard = wire::crc_t10_dif(block),
        .application_tag = tag,
        .reference_tag = type == ProtectionType::Type3 ? wire::kNoCheckReferenceTag : kFirst + i});
    std::ranges::copy(tuple, tuple_in(wire, i).begin());
  }
  return wire;
}

constexpr std::array kTypes{ProtectionType::Type1, ProtectionType::Type2, ProtectionType::Type3};

// Each of the three, both ways, and every time it is the adapter that has the region.
TEST(TargetIntegrity, InsertsStripsAndPasses) {
  for (const ProtectionType type : kTypes) {
    Bench bench{type, {}};
    const Bytes data = data_of(1);
    EXPECT_EQ(bench.write(kNone, data).status, 0);  // insert
    Bytes found(std::size_t{kBlocks} * kWireBlock);
    EXPECT_EQ(bench.run(false, kUnchecked, found).status, 0);  // pass
    EXPECT_TRUE(found == wire_of(data, type, 0)) << "as the disk makes them";
    const Bytes other = wire_of(data_of(2), type, kTag);
    EXPECT_EQ(bench.write(kChecked, other).status, 0);  // pass
    EXPECT_EQ(bench.run(false, kChecked, found).status, 0);
    EXPECT_TRUE(found == other);
    Bytes stripped(data.size());
    EXPECT_EQ(bench.run(false, kNone, stripped).status, 0);  // strip
    EXPECT_TRUE(stripped == data_of(2));
    EXPECT_EQ(registered, 5U);
    bench.world.environment.advance(Duration::milliseconds(1));
    EXPECT_EQ(bench.target().integrity_regions(), 0U);
    EXPECT_EQ(bench.target().tasks(), 0U);
  }
}

// Without integrity regions, or where they are not wanted, the disk does the same.
TEST(TargetIntegrity, IsTheDisksWhereTheDeviceHasNone) {
  for (const bool has_regions : {false, true}) {
    Bench bench{ProtectionType::Type1,
                {.uses_integrity = !has_regions},
                has_regions ? counting : without_integrity};
    EXPECT_EQ(bench.target().max_protected_bytes(), 0U);
    Bytes wire = wire_of(data_of(1), ProtectionType::Type1, kTag);
    EXPECT_EQ(bench.write(kChecked, wire).status, 0);
    tuple_in(wire, 3)[0] ^= std::byte{1};
    EXPECT_EQ(bench.write(kChecked, wire).code(), 0x1001U);
    EXPECT_EQ(registered, 0U);
  }
}

enum class Damage : std::uint8_t { Guard, ApplicationTag, ReferenceTag, GuardOfExempt };
constexpr std::array kDamages{Damage::Guard, Damage::ApplicationTag, Damage::ReferenceTag,
                              Damage::GuardOfExempt};

void damage(Bytes& wire, std::uint32_t block, ProtectionType type, Damage what) {
  const MutableByteSpan octets = tuple_in(wire, block);
  ProtectionTuple tuple = *wire::parse<ProtectionTuple>(octets);
  tuple.guard ^= what == Damage::Guard || what == Damage::GuardOfExempt ? 1U : 0U;
  tuple.application_tag ^= what == Damage::ApplicationTag ? 0x8000U : 0U;
  tuple.reference_tag ^= what == Damage::ReferenceTag ? 0x100U : 0U;
  if (what == Damage::GuardOfExempt) {  // SBC-3 §4.22.2
    tuple.application_tag = wire::kNoCheckApplicationTag;
    if (type == ProtectionType::Type3) {
      tuple.reference_tag = wire::kNoCheckReferenceTag;
    }
  }
  std::ranges::copy(wire::pack(tuple), octets.begin());
}

// Additional sense code and qualifier; `names_tags`: the CDB does, as of Type 2 alone.
[[nodiscard]] unsigned code_of(ProtectionType type, Damage what, bool names_tags) {
  switch (what) {
    case Damage::Guard:
      return 0x1001;
    case Damage::ApplicationTag:
      return names_tags ? 0x1002 : 0;
    case Damage::ReferenceTag:
      return type == ProtectionType::Type1 || names_tags ? 0x1003 : 0;
    case Damage::GuardOfExempt:
      break;
  }
  return 0;
}

/// What becomes of damage that an initiator sends, and of damage that the disk has kept.
struct Found {
  Answer written;
  Answer passed;
  Answer stripped;
  Bytes kept;  ///< of the disk, after what was written with checks
  bool operator==(const Found&) const = default;
};

[[nodiscard]] Found find(Bench& bench, ProtectionType type, std::uint32_t block, Damage what) {
  Found found;
  const Bytes good = wire_of(data_of(1), type, kTag);
  EXPECT_EQ(bench.write(kUnchecked, good).status, 0);
  Bytes bad = wire_of(data_of(2), type, kTag);
  damage(bad, block, type, what);
  found.written = bench.write(kChecked, bad);
  found.kept.resize(good.size());
  EXPECT_EQ(bench.run(false, kUnchecked, found.kept).status, 0);
  EXPECT_TRUE(found.kept == (found.written.status == 0 ? bad : good)) << "all or nothing";
  EXPECT_EQ(bench.write(kUnchecked, bad).status, 0);
  Bytes memory(bad.size());
  found.passed = bench.run(false, kChecked, memory);
  memory.resize(std::size_t{kBlocks} * kBlock);
  found.stripped = bench.run(false, kNone, memory);
  return found;
}

// SPC-4 Annex F: 10h/01h to 03h, with the block; the disk's own checks say the same to the octet.
TEST(TargetIntegrity, EndsACommandWhoseTupleIsDamagedAsTheDiskDoes) {
  for (const ProtectionType type : kTypes) {
    Bench adapter{type, {}};
    Bench disk{type, {.uses_integrity = false}};
    for (const Damage what : kDamages) {
      for (const std::uint32_t block : {0U, 7U, kBlocks - 1}) {
        SCOPED_TRACE(::testing::Message() << "type " << std::to_underlying(type) << ", damage "
                                          << std::to_underlying(what) << ", block " << block);
        const Found found = find(adapter, type, block, what);
        const bool names_tags = type == ProtectionType::Type2;
        const unsigned code = code_of(type, what, names_tags);
        EXPECT_EQ(found.written.code(), code);
        EXPECT_EQ(found.written.status, code != 0 ? 2 : 0);
        EXPECT_EQ(found.passed.code(), code);
        EXPECT_EQ(found.passed.status, code != 0 ? 2 : 0);
        EXPECT_EQ(found.stripped.code(), code_of(type, what, false));
        if (code != 0) {
          EXPECT_EQ(std::to_integer<unsigned>(found.written.sense[2 + 6]), kFirst + block);
        }
        EXPECT_TRUE(found == find(disk, type, block, what));
      }
    }
  }
}

class TargetIntegrityRegions : public ::testing::Test {
 protected:
  /// Commands of all blocks each, which are under way together.
  void transmit(Bench& bench, bool writes, std::size_t commands) {
    for (std::size_t i = 0; i < commands; ++i) {
      memory_.push_back(wire_of(data_of(static_cast<unsigned>(i)), ProtectionType::Type1, kTag));
      tasks_.push_back(std::make_unique<Task>());
      bench.set_up(*tasks_.back(), writes, kChecked, memory_.back());
      ASSERT_TRUE(bench.world.link().transmit(*tasks_.back()));
    }
  }
  std::vector<Bytes> memory_;
  std::vector<std::unique_ptr<Task>> tasks_;
};

TEST_F(TargetIntegrityRegions, AreWaitedForWhereAllAreInUse) {
  Bench bench{ProtectionType::Type1, {.registered_transfers = 2}};
  memory_.reserve(24);  // its octets stay where they are in any case
  std::size_t most = 0;
  bench.world.network.filter = [&](const auto& /*flight*/) {
    most = std::max(most, bench.target().integrity_regions());
    return true;
  };
  transmit(bench, true, 12);
  transmit(bench, false, 12);
  for (std::size_t i = 0; i < tasks_.size(); ++i) {
    ASSERT_EQ(bench.world.next<ScsiResponse>(bench.log).status, 0) << i;
  }
  EXPECT_EQ(most, 2U);
  EXPECT_EQ(registered, 24U);
  bench.world.environment.advance(Duration::milliseconds(1));
  EXPECT_EQ(bench.target().integrity_regions(), 0U);
}

TEST_F(TargetIntegrityRegions, AreGivenBackWhereTheDeviceGoesDuringIo) {
  Bench bench{ProtectionType::Type1, {.registered_transfers = 4}};
  transmit(bench, true, 12);
  World& world = bench.world;
  TargetDatamover& target = bench.target();
  ASSERT_TRUE(world.environment.wait_until([&] { return target.integrity_regions() == 4; },
                                           world.environment.now() + Duration::seconds(1)));
  core::Device& device = world.network.host(1).device();
  world.network.host(1).unregister_device();
  EXPECT_EQ(world.targets_gone, 1U);
  for (const auto kind : {core::ResourceKind::Qp, core::ResourceKind::Mr, core::ResourceKind::Pd}) {
    EXPECT_EQ(device.resource_count(kind), 0U);
  }
}

}  // namespace
}  // namespace weft::iser
