#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>
#include <vector>

#include "scsi/sanitize_mark.h"
#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Answer;
using testing::Bench;
using testing::bytes;
using testing::Bytes;
using testing::cdb10;
using testing::Exchange;
using testing::pattern;

constexpr std::uint32_t kInProgress =
    testing::sense(SenseKey::NotReady, SenseCode::SanitizeInProgress);
constexpr std::uint32_t kFailed =
    testing::sense(SenseKey::MediumError, SenseCode::SanitizeCommandFailed);
constexpr std::uint32_t kInvalidField =
    testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidFieldInCdb);
constexpr std::uint32_t kInvalidParameter =
    testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidFieldInParameterList);

constexpr unsigned kOverwrite = 0x01;
constexpr unsigned kBlockErase = 0x02;
constexpr unsigned kExitFailureMode = 0x1F;
constexpr unsigned kImmediate = 0x80;
constexpr unsigned kMayExit = 0x20;
const Bytes kReady = bytes({0, 0, 0, 0, 0, 0});

Bytes sanitize(unsigned flags, std::size_t list = 0) {
  Bytes cdb = bytes({0x48, flags, 0, 0, 0, 0, 0, 0, 0, 0});
  store_number(cdb, 7, 2, list);
  return cdb;
}

Bytes overwrite_list(unsigned first, const Bytes& content) {
  Bytes list = bytes({first, 0, 0, 0});
  store_number(list, 2, 2, content.size());
  list.insert(list.end(), content.begin(), content.end());
  return list;
}

Bytes block(Bench& bench, NexusId nexus, std::uint64_t lba) {
  return bench.run(nexus, cdb10(0x28, lba, 1), {}, 512).data;
}

TEST(Sanitize, BlockEraseLeavesZeroesWithoutSpace) {  // SBC-3 §4.11.4.3
  Bench bench;
  const NexusId nexus = bench.open(1);
  for (const std::uint64_t lba : {0u, 1000u, 2047u}) {
    ASSERT_TRUE(bench.run(nexus, cdb10(0x2A, lba, 1), pattern(512, 7)).good());
  }
  ASSERT_TRUE(bench.run(nexus, sanitize(kBlockErase)).good());
  for (const std::uint64_t lba : {0u, 1000u, 2047u}) {
    EXPECT_EQ(block(bench, nexus, lba), Bytes(512));
  }
  EXPECT_EQ(bench.ram->allocated_bytes(), 0u);
  EXPECT_EQ(bench.run(nexus, sanitize(kBlockErase, 8), Bytes(8)).sense(), kInvalidField);
}

TEST(Sanitize, OverwriteFillsEveryBlockWithThePatternRepeated) {  // SBC-3 §5.26.2.2
  for (const std::size_t length : {512u, 256u, 3u}) {
    Bench bench;
    const NexusId nexus = bench.open(1);
    const Bytes content = pattern(length, 9);
    const Bytes list = overwrite_list(1, content);
    ASSERT_TRUE(bench.run(nexus, sanitize(kOverwrite, list.size()), list).good());
    Bytes expected(512);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      expected[i] = content[i % length];
    }
    EXPECT_EQ(block(bench, nexus, 0), expected);
    EXPECT_EQ(block(bench, nexus, 2047), expected);
  }
}

TEST(Sanitize, InvertTurnsThePatternAroundFromPassToPass) {
  for (const unsigned passes : {1u, 2u, 3u}) {
    Bench bench;
    const NexusId nexus = bench.open(1);
    const Bytes list = overwrite_list(0x80 | passes, Bytes(512, std::byte{0xA5}));
    ASSERT_TRUE(bench.run(nexus, sanitize(kOverwrite, list.size()), list).good());
    EXPECT_EQ(block(bench, nexus, 5), Bytes(512, passes == 2 ? std::byte{0x5A} : std::byte{0xA5}))
        << passes;
  }
}

TEST(Sanitize, WrongParametersOfOverwriteAreRefused) {
  Bench bench;
  const NexusId nexus = bench.open(1);
  ASSERT_TRUE(bench.run(nexus, cdb10(0x2A, 3, 1), pattern(512, 7)).good());
  const auto refused = [&](const Bytes& list, std::uint32_t sense) {
    EXPECT_EQ(bench.run(nexus, sanitize(kOverwrite, list.size()), list).sense(), sense);
  };
  for (std::size_t length = 0; length < 5; ++length) {
    refused(Bytes(length), kInvalidField);
  }
  refused(overwrite_list(1, Bytes(513)), kInvalidField);
  refused(overwrite_list(0, Bytes(512)), kInvalidParameter);
  Bytes list = overwrite_list(1, Bytes(512));
  store_number(list, 2, 2, 0);
  refused(list, kInvalidParameter);
  store_number(list, 2, 2, 513);
  refused(list, kInvalidParameter);
  EXPECT_EQ(bench.run(nexus, sanitize(0x03)).sense(), kInvalidField);  // CRYPTOGRAPHIC ERASE
  EXPECT_EQ(block(bench, nexus, 3), pattern(512, 7));
}

TEST(Sanitize, NothingElseIsDoneMeanwhileAndNoResetEndsIt) {  // SBC-3 §4.11.2
  Bench bench;
  const NexusId a = bench.open(1);
  const NexusId b = bench.open(2);
  ASSERT_TRUE(bench.run(a, cdb10(0x2A, 2047, 1), pattern(512, 7)).good());
  bench.device.holds = true;
  const Bytes list = overwrite_list(1, bytes({0x77}));
  Exchange& waiting = bench.start(a, sanitize(kOverwrite, list.size()), list);
  EXPECT_FALSE(waiting.answer.ended);
  for (const Bytes& cdb : {kReady, cdb10(0x28, 0, 1), bytes({0x1B, 0, 0, 0, 1, 0})}) {
    EXPECT_EQ(bench.run(b, cdb, {}, 512).sense(), kInProgress);
  }
  EXPECT_TRUE(bench.run(b, bytes({0x12, 0, 0, 0, 96, 0}), {}, 96).good());
  const Answer asked = bench.run(b, bytes({0x03, 0, 0, 0, 18, 0}), {}, 18);
  ASSERT_TRUE(asked.good());
  EXPECT_EQ(load16(asked.data, 12), 0x041B);
  EXPECT_EQ(load8(asked.data, 15), 0x80);  // a progress indication

  const auto response = bench.manage(a, TaskManagement::LogicalUnitReset);
  EXPECT_EQ(*response, TaskManagementResponse::Complete);
  EXPECT_TRUE(waiting.answer.ended);
  EXPECT_FALSE(waiting.answer.completion.has_status);
  bench.run(b, kReady);  // the unit attention of the reset
  EXPECT_EQ(bench.run(b, kReady).sense(), kInProgress);
  while (bench.device.release()) {
  }
  EXPECT_TRUE(bench.run(b, kReady).good());
  bench.device.holds = false;
  EXPECT_EQ(block(bench, b, 2047), Bytes(512, std::byte{0x77}));
}

TEST(Sanitize, WaitsForTheCommandsBeforeItAndAnswersAtOnceWithImmed) {
  Bench bench;
  const NexusId nexus = bench.open(1);
  bench.device.holds = true;
  Exchange& before = bench.start(nexus, cdb10(0x2A, 8, 1), pattern(512, 7));
  Exchange& erase = bench.start(nexus, sanitize(kImmediate | kBlockErase));
  EXPECT_TRUE(erase.answer.good());
  EXPECT_EQ(bench.device.waiting(), 1u);  // the WRITE alone
  bench.device.release();
  EXPECT_TRUE(before.answer.good());
  while (bench.device.release()) {
  }
  bench.device.holds = false;
  EXPECT_EQ(block(bench, nexus, 8), Bytes(512));
}

TEST(Sanitize, AFailureStaysUntilItIsLeftOrASanitizeSucceeds) {  // SBC-3 §4.11.3
  for (const bool may_exit : {false, true}) {
    Bench bench;
    const NexusId nexus = bench.open(1);
    bench.device.bad_blocks[100] = BlockStatus::WriteError;
    const unsigned flags = kBlockErase | (may_exit ? kMayExit : 0);
    EXPECT_EQ(bench.run(nexus, sanitize(flags)).sense(), kFailed);
    EXPECT_EQ(bench.run(nexus, cdb10(0x28, 0, 1), {}, 512).sense(), kFailed);
    EXPECT_EQ(bench.run(nexus, sanitize(kExitFailureMode)).sense(), may_exit ? 0 : kInvalidField);
    EXPECT_EQ(bench.run(nexus, kReady).sense(), may_exit ? 0 : kFailed);
    bench.device.bad_blocks.clear();
    EXPECT_TRUE(bench.run(nexus, sanitize(kBlockErase)).good());
    EXPECT_TRUE(bench.run(nexus, kReady).good());
  }
}

TEST(Sanitize, WriteProtectionAndReservationsForbidIt) {
  Bench bench;
  const NexusId a = bench.open(1);
  const NexusId b = bench.open(2);
  ASSERT_TRUE(bench.run(a, bytes({0x16, 0, 0, 0, 0, 0})).good());
  EXPECT_EQ(bench.run(b, sanitize(kBlockErase)).status(), Status::ReservationConflict);
  Bench only_read({.read_only = true});
  EXPECT_EQ(only_read.run(only_read.open(1), sanitize(kBlockErase)).sense(),
            testing::sense(SenseKey::DataProtect, SenseCode::WriteProtected));
}

/// Keeps what it is given, at once or when told.
class Store final : public SanitizeStore {
 public:
  void save(Bytes content, std::function<void(bool)> done) override {
    ++saves;
    if (holds) {
      waiting = [this, content = std::move(content), done = std::move(done)] {
        image = content;
        done(true);
      };
      return;
    }
    if (!fails) {
      image = std::move(content);
    }
    done(!fails);
  }
  bool release() {
    const auto due = std::exchange(waiting, {});
    if (due) {
      due();
    }
    return static_cast<bool>(due);
  }

  Bytes image;
  std::function<void()> waiting;
  bool holds{};
  bool fails{};
  unsigned saves{};
};

[[nodiscard]] testing::BenchOptions kept_by(Store& store) {
  testing::BenchOptions options;
  options.unit.sanitize_store = &store;
  return options;
}

[[nodiscard]] std::size_t written(Bench& bench) {
  return bench.device.submitted[BlockOperation::Write] +
         bench.device.submitted[BlockOperation::WriteZeroes];
}

// SBC-3 §4.11.2: a loss of power at any time ends in a disk that is sanitized, and in none that
// loses what was written after that.
TEST(SanitizeStore, KnowsOfItBeforeABlockChangesAndForgetsItBeforeItIsOver) {
  Store store;
  Bench bench{kept_by(store)};
  const NexusId nexus = bench.open(1);
  store.holds = true;
  Exchange& erase = bench.start(nexus, sanitize(kBlockErase));
  EXPECT_EQ(written(bench), 0U);
  EXPECT_EQ(bench.run(nexus, kReady).sense(), kInProgress);
  ASSERT_TRUE(store.release());
  EXPECT_FALSE(store.image.empty());
  EXPECT_NE(written(bench), 0U);
  EXPECT_FALSE(erase.answer.ended) << "it is not forgotten yet";
  EXPECT_EQ(bench.run(nexus, kReady).sense(), kInProgress);
  ASSERT_TRUE(store.release());
  EXPECT_TRUE(store.image.empty());
  EXPECT_TRUE(erase.answer.good());
  EXPECT_TRUE(bench.run(nexus, kReady).good());
}

TEST(SanitizeStore, HasAnotherUnitOfTheDiskTakeItUpAgain) {
  for (const unsigned passes : {1U, 2U, 3U}) {
    Store store;
    Bytes kept;
    {
      Bench bench{kept_by(store)};
      const NexusId nexus = bench.open(1);
      bench.device.holds = true;
      const Bytes list = overwrite_list(0x80 | passes, Bytes(512, std::byte{0xA5}));
      bench.start(nexus, sanitize(kOverwrite | kImmediate | kMayExit, list.size()), list);
      bench.device.release();
      bool gone = false;
      ASSERT_TRUE(bench.target.remove_unit(Lun{0}, [&gone] { gone = true; }));
      while (bench.device.release()) {
      }
      EXPECT_TRUE(gone);
      kept = store.image;
      EXPECT_FALSE(kept.empty()) << "a unit that goes has not ended it";
    }
    Bench bench{kept_by(store)};
    const NexusId nexus = bench.open(1);
    ASSERT_TRUE(bench.run(nexus, cdb10(0x2A, 2047, 1), pattern(512, 7)).good());
    bench.device.holds = true;
    ASSERT_TRUE(bench.unit->restore_sanitize(kept));
    EXPECT_EQ(bench.run(nexus, kReady).sense(), kInProgress);
    while (bench.device.release()) {
    }
    bench.device.holds = false;
    EXPECT_TRUE(bench.run(nexus, kReady).good());
    EXPECT_TRUE(store.image.empty());
    EXPECT_EQ(block(bench, nexus, 2047),
              Bytes(512, passes == 2 ? std::byte{0x5A} : std::byte{0xA5}));
  }
}

TEST(SanitizeStore, KeepsAFailureUntilItIsLeft) {  // SBC-3 §4.11.3
  Store store;
  {
    Bench bench{kept_by(store)};
    bench.device.bad_blocks[100] = BlockStatus::WriteError;
    EXPECT_EQ(bench.run(bench.open(1), sanitize(kBlockErase | kMayExit)).sense(), kFailed);
  }
  Bench bench{kept_by(store)};
  const NexusId nexus = bench.open(1);
  ASSERT_TRUE(bench.unit->restore_sanitize(store.image));
  EXPECT_EQ(written(bench), 0U) << "it is not begun again";
  EXPECT_EQ(bench.run(nexus, kReady).sense(), kFailed);
  store.holds = true;
  Exchange& leave = bench.start(nexus, sanitize(kExitFailureMode));
  EXPECT_FALSE(leave.answer.ended);
  EXPECT_EQ(bench.run(nexus, sanitize(kBlockErase)).status(), Status::Busy);
  ASSERT_TRUE(store.release());
  EXPECT_TRUE(leave.answer.good());
  EXPECT_TRUE(store.image.empty());
  EXPECT_TRUE(bench.run(nexus, kReady).good());
}

TEST(SanitizeStore, ThatCannotKeepItHasItNotBegun) {
  Store store;
  store.fails = true;
  Bench bench{kept_by(store)};
  const NexusId nexus = bench.open(1);
  for (const unsigned flags : {kBlockErase, kBlockErase | kImmediate}) {
    EXPECT_EQ(bench.run(nexus, sanitize(flags)).sense(),
              testing::sense(SenseKey::HardwareError, SenseCode::InternalTargetFailure));
    EXPECT_EQ(written(bench), 0U);
    EXPECT_TRUE(bench.run(nexus, kReady).good());
  }
}

TEST(SanitizeStore, WhatItKeepsIsReadAgainOrRefused) {
  const SanitizeMark mark{.inverts = true, .may_exit = true, .passes = 7, .pattern = Bytes(512)};
  EXPECT_EQ(SanitizeMark::parse(mark.image()), mark);
  const SanitizeMark failed{.failed = true, .erases = true};
  EXPECT_EQ(SanitizeMark::parse(failed.image()), failed);
  Bench bench;
  const Bytes image = mark.image();
  for (std::size_t i = 0; i < image.size(); ++i) {
    if (i == 6 || i == 7) {
      continue;  // zero, and not read
    }
    Bytes damaged = image;
    damaged[i] ^= std::byte{0x40};
    EXPECT_FALSE(bench.unit->restore_sanitize(damaged)) << i;
    EXPECT_FALSE(bench.unit->restore_sanitize(ByteSpan{image}.first(i))) << i;
  }
  SanitizeMark of_larger_blocks = mark;
  of_larger_blocks.pattern.resize(4'096);
  EXPECT_FALSE(bench.unit->restore_sanitize(of_larger_blocks.image()));
  EXPECT_TRUE(bench.run(bench.open(1), kReady).good());
}

TEST(Sanitize, AUnitThatGoesEndsIt) {
  Bench bench;
  const NexusId nexus = bench.open(1);
  bench.device.holds = true;
  const Bytes list = overwrite_list(31, bytes({1}));
  bench.start(nexus, sanitize(kOverwrite, list.size()), list);
  bool gone = false;
  ASSERT_TRUE(bench.target.remove_unit(Lun{0}, [&gone] { gone = true; }).has_value());
  EXPECT_FALSE(gone);
  bench.device.release();
  EXPECT_TRUE(gone);
  EXPECT_EQ(bench.device.waiting(), 0u);
}

}  // namespace
}  // namespace weft::scsi
