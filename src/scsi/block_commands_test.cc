#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "scsi/protection.h"
#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Answer;
using testing::Bench;
using testing::bytes;
using testing::Bytes;
using testing::cdb10;
using testing::cdb16;
using testing::pattern;

constexpr std::uint32_t kLbaOutOfRange =
    testing::sense(SenseKey::IllegalRequest, SenseCode::LbaOutOfRange);
constexpr std::uint32_t kInvalidField =
    testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidFieldInCdb);
constexpr std::uint32_t kMiscompare =
    testing::sense(SenseKey::Miscompare, SenseCode::MiscompareDuringVerify);

Bytes cdb12(unsigned opcode, std::uint64_t lba, std::uint64_t blocks) {
  Bytes cdb(12);
  store_number(cdb, 0, 1, opcode);
  store_number(cdb, 2, 4, lba);
  store_number(cdb, 6, 4, blocks);
  return cdb;
}

std::uint64_t information(const Answer& answer) {  // of fixed format
  return load32(answer.completion.sense.octets(), 3);
}

TEST(BlockCommands, EveryLengthOfReadSeesEveryLengthOfWrite) {  // SBC-3 §5.11 to §5.14, §5.39 ff.
  Bench bench;
  const NexusId nexus = bench.open(1);
  const Bytes data = pattern(2 * 512, 3);
  const std::vector<Bytes> writes{bytes({0x0A, 0, 0, 8, 2, 0}),
                                  cdb10(0x2A, 8, 2),
                                  cdb12(0xAA, 8, 2),
                                  cdb16(0x8A, 8, 2),
                                  cdb10(0x2E, 8, 2),
                                  cdb12(0xAE, 8, 2),
                                  cdb16(0x8E, 8, 2)};
  const std::vector<Bytes> reads{bytes({0x08, 0, 0, 8, 2, 0}), cdb10(0x28, 8, 2), cdb12(0xA8, 8, 2),
                                 cdb16(0x88, 8, 2)};
  for (std::size_t i = 0; i < writes.size(); ++i) {
    const Bytes own = pattern(2 * 512, static_cast<unsigned>(i));
    ASSERT_TRUE(bench.run(nexus, writes[i], own).good()) << i;
    for (const Bytes& read : reads) {
      const Answer answer = bench.run(nexus, read, {}, 1024);
      ASSERT_TRUE(answer.good());
      EXPECT_EQ(answer.data, own) << i;
    }
  }
}

TEST(BlockCommands, SixOctetsTransfer256BlocksForZero) {  // SBC-3 §5.11
  Bench bench;
  const NexusId nexus = bench.open(1);
  const Answer answer = bench.run(nexus, bytes({0x08, 0, 0, 0, 0, 0}), {}, 256 * 512);
  EXPECT_TRUE(answer.good());
  EXPECT_EQ(answer.data.size(), 256u * 512);
  EXPECT_TRUE(bench.run(nexus, cdb10(0x28, 2048, 0)).good());  // none, just behind the last
}

TEST(BlockCommands, RangesEndAtTheLastBlock) {
  Bench bench;
  const NexusId nexus = bench.open(1);
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 2047, 2), {}, 1024).sense(), kLbaOutOfRange);
  EXPECT_EQ(bench.run(nexus, cdb16(0x88, ~std::uint64_t{0}, 2), {}, 1024).sense(), kLbaOutOfRange);
  EXPECT_EQ(bench.run(nexus, cdb16(0x8A, 2048, 1), Bytes(512)).sense(), kLbaOutOfRange);
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 2049, 0)).sense(), kLbaOutOfRange);
  EXPECT_EQ(bench.run(nexus, cdb10(0x35, 2048, 1)).sense(), kLbaOutOfRange);
}

TEST(BlockCommands, ResidualsSayWhatBuffersHadTooManyOrTooFew) {  // SAM-5 §5.4.2
  Bench bench;
  const NexusId nexus = bench.open(1);
  const Answer under = bench.run(nexus, cdb10(0x28, 0, 1), {}, 2000);
  EXPECT_TRUE(under.good());
  EXPECT_EQ(under.completion.residual, 2000 - 512);
  const Answer over = bench.run(nexus, cdb10(0x28, 0, 4), {}, 700);
  EXPECT_TRUE(over.good());
  EXPECT_EQ(over.data.size(), 700u);
  EXPECT_EQ(over.completion.residual, 700 - 2048);
  EXPECT_EQ(bench.run(nexus, cdb10(0x2A, 0, 1), Bytes(1000)).completion.residual, 1000 - 512);
  const Answer refused = bench.run(nexus, cdb10(0x2A, 0, 4), pattern(700, 1));
  EXPECT_EQ(refused.sense(), testing::sense(SenseKey::IllegalRequest,
                                            SenseCode::InvalidFieldInCommandInformationUnit));
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 0, 1), {}, 512).data, Bytes(512));  // nothing written
}

TEST(BlockCommands, DeviceErrorsBecomeSenseWithTheBlock) {  // SPC-4 §4.5
  Bench bench;
  const NexusId nexus = bench.open(1);
  bench.device.bad_blocks = {
      {10, BlockStatus::ReadError },
      {20, BlockStatus::WriteError},
      {30, BlockStatus::NoSpace   }
  };
  const Answer read = bench.run(nexus, cdb10(0x28, 8, 4), {}, 2048);
  EXPECT_EQ(read.sense(), testing::sense(SenseKey::MediumError, SenseCode::UnrecoveredReadError));
  EXPECT_EQ(information(read), 10u);
  const Answer write = bench.run(nexus, cdb10(0x2A, 20, 1), Bytes(512));
  EXPECT_EQ(write.sense(), testing::sense(SenseKey::MediumError, SenseCode::WriteError));
  EXPECT_EQ(bench.run(nexus, cdb10(0x2A, 30, 1), Bytes(512)).sense(),
            testing::sense(SenseKey::DataProtect, SenseCode::SpaceAllocationFailed));
}

TEST(BlockCommands, WritesReachTheDiskWithoutCacheOrWithFua) {  // SBC-3 §6.4.5, §5.39
  Bench cached({.unit = {.modes = {.write_cache = true}}});
  const NexusId nexus = cached.open(1);
  cached.run(nexus, cdb10(0x2A, 0, 1), Bytes(512));
  EXPECT_EQ(cached.device.forced, 0u);
  cached.run(nexus, cdb10(0x2A, 0, 1, 0x08), Bytes(512));
  EXPECT_EQ(cached.device.forced, 1u);
  cached.run(nexus, cdb10(0x35, 0, 0));
  EXPECT_EQ(cached.device.submitted[BlockOperation::Flush], 1u);
  Bench through;
  through.run(through.open(1), cdb10(0x2A, 0, 1), Bytes(512));
  EXPECT_EQ(through.device.forced, 1u);
}

TEST(BlockCommands, CompareAndWriteWritesOnlyIfAllIsEqual) {  // SBC-3 §5.2
  Bench bench;
  const NexusId nexus = bench.open(1);
  const auto compare_and_write = [&](const Bytes& expected, const Bytes& wanted) {
    Bytes both = expected;
    both.insert(both.end(), wanted.begin(), wanted.end());
    Bytes cdb(16);
    store_number(cdb, 0, 1, 0x89);
    store_number(cdb, 2, 8, 5);
    store_number(cdb, 13, 1, 2);
    return bench.run(nexus, cdb, both);
  };
  const Bytes next = pattern(1024, 4);
  EXPECT_TRUE(compare_and_write(Bytes(1024), next).good());
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 5, 2), {}, 1024).data, next);
  Bytes wrong = next;
  wrong[700] ^= std::byte{1};
  const Answer missed = compare_and_write(wrong, Bytes(1024));
  EXPECT_EQ(missed.sense(), kMiscompare);
  EXPECT_EQ(information(missed), 700u);
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 5, 2), {}, 1024).data, next);
}

TEST(BlockCommands, DataOutOfAnotherLengthThanTheCdbMeansIsRefused) {
  Bench bench;
  const NexusId nexus = bench.open(1);
  Bytes compare(16);
  store_number(compare, 0, 1, 0x89);
  store_number(compare, 13, 1, 2);
  constexpr std::uint32_t kTooShort =
      testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidFieldInCommandInformationUnit);
  EXPECT_EQ(bench.run(nexus, compare, Bytes(3 * 512)).sense(), kTooShort);
  EXPECT_EQ(bench.run(nexus, compare, Bytes(5 * 512)).sense(), kInvalidField);
  store_number(compare, 13, 1, 0);  // as 256 blocks come to be
  EXPECT_EQ(bench.run(nexus, compare, Bytes(512 * 512)).sense(), kInvalidField);
  EXPECT_EQ(bench.run(nexus, cdb10(0x41, 0, 1, 0x08), Bytes(256)).sense(), kTooShort);
  EXPECT_EQ(bench.run(nexus, cdb10(0x41, 0, 1, 0x08), Bytes(1024)).sense(), kInvalidField);
  EXPECT_EQ(bench.run(nexus, cdb16(0x93, 0, 1, 0x08), Bytes(1024)).sense(), kInvalidField);
}

TEST(BlockCommands, OrWriteSetsBitsAndClearsNone) {  // SBC-3 §5.7
  constexpr std::uint64_t kBlocks = 600;             // more than are copied at a time
  for (const ProtectionType type : {ProtectionType::None, ProtectionType::Type1}) {
    Bench bench({
        .unit = {.serial = "SN01", .protection = type},
          .keeps_protection = true
    });
    const NexusId nexus = bench.open(1);
    const Bytes first = pattern(kBlocks * 512, 3);
    const Bytes second = pattern(kBlocks * 512, 77);
    ASSERT_TRUE(bench.run(nexus, cdb10(0x2A, 9, kBlocks), first).good());
    ASSERT_TRUE(bench.run(nexus, cdb16(0x8B, 9, kBlocks), second).good());
    Bytes both(first.size());
    std::ranges::transform(first, second, both.begin(), std::bit_or<>{});
    EXPECT_EQ(bench.run(nexus, cdb10(0x28, 9, kBlocks), {}, both.size()).data, both);
    EXPECT_EQ(bench.run(nexus, cdb16(0x8B, 2048, 1), Bytes(512)).sense(), kLbaOutOfRange);
  }
}

TEST(BlockCommands, WriteAtomicStoresWhatTheDeviceStoresAsAWhole) {  // SBC-4 WRITE ATOMIC (16)
  Bench bench({.atomic_blocks = 16});
  const NexusId nexus = bench.open(1);
  const auto cdb = [](std::uint64_t lba, std::uint16_t blocks, std::uint16_t boundary = 0) {
    Bytes octets = cdb16(0x9C, lba, 0);
    store_number(octets, 10, 2, boundary);
    store_number(octets, 12, 2, blocks);
    return octets;
  };
  const Bytes data = pattern(16 * 512, 8);
  EXPECT_TRUE(bench.run(nexus, cdb(3, 16), data).good());
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 3, 16), {}, data.size()).data, data);
  EXPECT_EQ(bench.run(nexus, cdb(3, 17), Bytes(17 * 512)).sense(), kInvalidField);
  EXPECT_EQ(bench.run(nexus, cdb(3, 8, 8), Bytes(8 * 512)).sense(), kInvalidField);
  EXPECT_EQ(bench.run(nexus, cdb(2048, 1), Bytes(512)).sense(), kLbaOutOfRange);
  // Half of it is nothing: short data-out is not stored.
  EXPECT_FALSE(bench.run(nexus, cdb(3, 16), Bytes(8 * 512)).good());
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 3, 16), {}, data.size()).data, data);
  Bench without;
  EXPECT_EQ(without.run(without.open(1), cdb(0, 1), Bytes(512)).sense(),
            testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidCommandOperationCode));
}

TEST(BlockCommands, PrefetchChecksItsRange) {  // SBC-3 §5.9, §5.10
  Bench bench;
  const NexusId nexus = bench.open(1);
  EXPECT_TRUE(bench.run(nexus, cdb10(0x34, 2047, 1)).good());
  EXPECT_TRUE(bench.run(nexus, cdb16(0x90, 0, 2048, 0x02)).good());
  EXPECT_EQ(bench.run(nexus, cdb10(0x34, 2047, 2)).sense(), kLbaOutOfRange);
  EXPECT_EQ(bench.run(nexus, cdb16(0x90, 2049, 0)).sense(), kLbaOutOfRange);
}

TEST(BlockCommands, DefectListsAreEmpty) {  // SBC-3 §5.17, §5.18
  Bench bench;
  const NexusId nexus = bench.open(1);
  EXPECT_EQ(bench.run(nexus, bytes({0x37, 0, 0x1D, 0, 0, 0, 0, 0, 32, 0}), {}, 32).data,
            bytes({0, 0x1D, 0, 0}));
  EXPECT_EQ(bench.run(nexus, bytes({0xB7, 0x18, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0}), {}, 32).data,
            bytes({0, 0x18, 0, 0, 0, 0, 0, 0}));
}

TEST(BlockCommands, VerifyComparesAsByteCheckSays) {  // SBC-3 §5.31
  Bench bench;
  const NexusId nexus = bench.open(1);
  const Bytes data = pattern(1024, 9);
  bench.run(nexus, cdb10(0x2A, 0, 2), data);
  EXPECT_TRUE(bench.run(nexus, cdb10(0x2F, 0, 2)).good());
  EXPECT_TRUE(bench.run(nexus, cdb10(0x2F, 0, 2, 0x02), data).good());
  EXPECT_EQ(bench.run(nexus, cdb16(0x8F, 0, 2, 0x02), Bytes(1024)).sense(), kMiscompare);
  EXPECT_EQ(bench.run(nexus, cdb10(0x2F, 0, 2, 0x04), data).sense(), kInvalidField);
  EXPECT_TRUE(bench.run(nexus, cdb12(0xAF, 100, 3)).good());
  EXPECT_TRUE(bench.run(nexus, cdb10(0x2F, 100, 3, 0x06), Bytes(512)).good());
  EXPECT_EQ(
      bench.run(nexus, cdb10(0x2F, 0, 2, 0x06), Bytes(data.begin(), data.begin() + 512)).sense(),
      kMiscompare);
}

TEST(BlockCommands, WriteSameRepeatsUnmapsAndNeedsNoData) {  // SBC-3 §5.50, §5.51
  Bench bench;
  const NexusId nexus = bench.open(1);
  const Bytes block = pattern(512, 2);
  EXPECT_TRUE(bench.run(nexus, cdb10(0x41, 100, 1000), block).good());
  const Bytes read = bench.run(nexus, cdb10(0x28, 1099, 2), {}, 1024).data;
  EXPECT_TRUE(std::ranges::equal(ByteSpan{read}.first(512), block));
  EXPECT_EQ(load8(read, 600), 0);
  EXPECT_TRUE(bench.run(nexus, cdb16(0x93, 128, 128, 0x08), Bytes(512)).good());
  EXPECT_FALSE(bench.ram->extent(128).mapped);
  EXPECT_TRUE(bench.run(nexus, cdb16(0x93, 256, 1, 0x01)).good());  // NDOB
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 256, 1), {}, 512).data, Bytes(512));
  EXPECT_TRUE(bench.run(nexus, cdb16(0x93, 2000, 0, 0x00), block).good());  // up to the end
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 2047, 1), {}, 512).data, block);
  EXPECT_EQ(bench.run(nexus, cdb10(0x41, 0, 1, 0x10), block).sense(), kInvalidField);  // ANCHOR
}

TEST(BlockCommands, UnmapChecksAllDescriptorsBeforeAny) {  // SBC-3 §5.36
  Bench bench;
  const NexusId nexus = bench.open(1);
  bench.run(nexus, cdb10(0x41, 0, 2048), pattern(512, 1));
  const auto unmap = [&](std::uint64_t first, std::uint64_t second) {
    ParameterData list;
    list.add(2, 38).add(2, 32).add(4, 0);
    list.add(8, first).add(4, 128).add(4, 0).add(8, second).add(4, 128).add(4, 0);
    Bytes cdb(10);
    store_number(cdb, 0, 1, 0x42);
    store_number(cdb, 7, 2, list.size());
    return bench.run(nexus, cdb, Bytes(list.octets().begin(), list.octets().end()));
  };
  EXPECT_EQ(unmap(0, 2000).sense(), kLbaOutOfRange);
  EXPECT_TRUE(bench.ram->extent(0).mapped);
  EXPECT_TRUE(unmap(0, 256).good());
  EXPECT_FALSE(bench.ram->extent(0).mapped);
  EXPECT_TRUE(bench.ram->extent(128).mapped);
  EXPECT_FALSE(bench.ram->extent(256).mapped);
  EXPECT_TRUE(bench.run(nexus, cdb10(0x42, 0, 0)).good());  // an empty list
  Bytes cdb(10);
  store_number(cdb, 0, 1, 0x42);
  store_number(cdb, 7, 2, 4);
  EXPECT_EQ(bench.run(nexus, cdb, Bytes(4)).sense(),
            testing::sense(SenseKey::IllegalRequest, SenseCode::ParameterListLengthError));
}

TEST(BlockCommands, AReadOnlyUnitRefusesEveryWrite) {
  Bench bench({.read_only = true});
  const NexusId nexus = bench.open(1);
  const std::uint32_t protect = testing::sense(SenseKey::DataProtect, SenseCode::WriteProtected);
  EXPECT_EQ(bench.run(nexus, cdb10(0x2A, 0, 1), Bytes(512)).sense(), protect);
  EXPECT_EQ(bench.run(nexus, cdb10(0x41, 0, 1), Bytes(512)).sense(), protect);
  EXPECT_EQ(bench.run(nexus, cdb10(0x41, 0, 1, 0x08), Bytes(512)).sense(), protect);
  EXPECT_EQ(bench.run(nexus, cdb10(0x41, 0, 1, 0x18)).sense(), protect);  // whatever else is wrong
  EXPECT_EQ(bench.run(nexus, cdb16(0x8B, 0, 1), Bytes(512)).sense(), protect);
  EXPECT_EQ(bench.run(nexus, cdb10(0x42, 0, 0)).sense(), protect);
  EXPECT_EQ(bench.run(nexus, bytes({4, 0, 0, 0, 0, 0})).sense(), protect);
  EXPECT_TRUE(bench.run(nexus, cdb10(0x28, 0, 1), {}, 512).good());
}

Bench protected_bench(ProtectionType type) {
  return Bench({
      .unit = {.serial = "SN01", .protection = type},
        .keeps_protection = true
  });
}

Bytes with_tuples(const Bytes& data, const ProtectionCheck& check) {
  Bytes tuples(data.size() / 512 * kTupleBytes);
  generate_protection(check, data, tuples);
  Bytes out(data.size() + tuples.size());
  interleave_protection(512, data, tuples, out);
  return out;
}

TEST(BlockCommands, ProtectionTravelsAndIsChecked) {  // SBC-3 §4.22, Tables 78 and 112
  for (const ProtectionType type : {ProtectionType::Type1, ProtectionType::Type3}) {
    Bench bench = protected_bench(type);
    const NexusId nexus = bench.open(1);
    const Bytes data = pattern(1024, 5);
    const Bytes sent = with_tuples(data, {.type = type, .expected_reference = 16});
    ASSERT_TRUE(bench.run(nexus, cdb10(0x2A, 16, 2, 0x20), sent).good());
    EXPECT_EQ(bench.run(nexus, cdb10(0x28, 16, 2, 0x20), {}, 1040).data, sent);
    EXPECT_EQ(bench.run(nexus, cdb10(0x28, 16, 2), {}, 1024).data, data);
    Bytes damaged = sent;
    damaged[520 + 100] ^= std::byte{4};
    const Answer guard = bench.run(nexus, cdb10(0x2A, 16, 2, 0x20), damaged);
    EXPECT_EQ(guard.sense(), testing::sense(SenseKey::AbortedCommand, SenseCode::GuardCheckFailed));
    EXPECT_EQ(information(guard), 17u);
    EXPECT_TRUE(bench.run(nexus, cdb10(0x2A, 16, 2, 0x60), damaged).good());  // 011b: unchecked
    EXPECT_EQ(bench.run(nexus, cdb10(0x28, 16, 2), {}, 1024).sense(),
              testing::sense(SenseKey::AbortedCommand, SenseCode::GuardCheckFailed));
    EXPECT_EQ(bench.run(nexus, cdb10(0x28, 16, 2, 0x60), {}, 1040).data, damaged);
    const Answer moved = bench.run(nexus, cdb10(0x2A, 17, 2, 0x20), sent);
    if (type == ProtectionType::Type1) {
      EXPECT_EQ(moved.sense(),
                testing::sense(SenseKey::AbortedCommand, SenseCode::ReferenceTagCheckFailed));
    } else {
      EXPECT_TRUE(moved.good());
    }
  }
}

TEST(BlockCommands, Type2TakesItsTagsFromCdbsOf32Octets) {  // SBC-3 §5.15, §5.44, Table 34
  Bench bench = protected_bench(ProtectionType::Type2);
  const NexusId nexus = bench.open(1);
  const auto cdb32 = [](unsigned action, unsigned flags, std::uint32_t reference) {
    Bytes cdb(32);
    store_number(cdb, 0, 1, 0x7F);
    store_number(cdb, 7, 1, 24);
    store_number(cdb, 8, 2, action);
    store_number(cdb, 10, 1, flags);
    store_number(cdb, 12, 8, 40);
    store_number(cdb, 20, 4, reference);
    store_number(cdb, 24, 4, 0x1234'FFFF);
    store_number(cdb, 28, 4, 1);
    return cdb;
  };
  const Bytes sent = with_tuples(
      pattern(512, 1),
      {.type = ProtectionType::Type2, .expected_application = 0x1234, .expected_reference = 777});
  EXPECT_TRUE(bench.run(nexus, cdb32(0x0B, 0x20, 777), sent).good());
  EXPECT_EQ(bench.run(nexus, cdb32(0x09, 0x20, 777), {}, 520).data, sent);
  EXPECT_EQ(bench.run(nexus, cdb32(0x09, 0x20, 778), {}, 520).sense(),
            testing::sense(SenseKey::AbortedCommand, SenseCode::ReferenceTagCheckFailed));
  EXPECT_TRUE(bench.run(nexus, cdb10(0x28, 40, 1), {}, 512).good());
  const std::uint32_t invalid =
      testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidCommandOperationCode);
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 40, 1, 0x20), {}, 520).sense(), invalid);
  Bench plain;
  EXPECT_EQ(plain.run(plain.open(1), cdb32(0x09, 0, 0), {}, 512).sense(), invalid);
  EXPECT_EQ(plain.run(plain.open(2), cdb10(0x28, 0, 1, 0x20), {}, 520).sense(), kInvalidField);
}

TEST(BlockCommands, FormatUnitChangesTheProtectionType) {  // SBC-3 §5.3, Table 40
  Bench bench = protected_bench(ProtectionType::None);
  const NexusId nexus = bench.open(1);
  bench.run(nexus, cdb10(0x2A, 0, 1), pattern(512, 1));
  EXPECT_TRUE(bench.run(nexus, bytes({4, 0xD0, 0, 0, 0, 0}), bytes({1, 0, 0, 0})).good());
  Bytes capacity(16);
  store_number(capacity, 0, 2, 0x9E10);
  store_number(capacity, 10, 4, 32);
  EXPECT_EQ(load8(bench.run(nexus, capacity, {}, 32).data, 12), 0x05);  // Type 3
  EXPECT_EQ(bench.run(nexus, cdb10(0x28, 0, 1), {}, 512).data, Bytes(512));
  EXPECT_EQ(bench.run(nexus, bytes({4, 0x50, 0, 0, 0, 0}), bytes({0, 0, 0, 0})).sense(),
            kInvalidField);
}

}  // namespace
}  // namespace weft::scsi
