// T10-PI end to end: an initiator's integrity regions, and a disk that keeps tuples.

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "ulp/iser/testing/world.h"
#include "wire/protection_tuple.h"

namespace weft::iser {
namespace {

using testing::PduLog;
using testing::World;
using wire::ProtectionTuple;
using wire::iscsi::ScsiResponse;

constexpr std::uint32_t kBlock = 512;
constexpr std::uint32_t kBlocks = 64;
constexpr std::uint32_t kFirst = 96;  // of the disk
constexpr std::uint16_t kTag = 0x1234;
// The CDB's protection field (SBC-3 Tables 78 and 112): tuples go, with checks or without.
constexpr unsigned kChecked = 1;
constexpr unsigned kUnchecked = 3;

[[nodiscard]] std::vector<core::ScatterEntry> list_of(MutableByteSpan memory) {
  return {
      {.address = std::bit_cast<std::uint64_t>(memory.data()),
       .length = static_cast<std::uint32_t>(memory.size())}
  };
}

[[nodiscard]] core::DeviceOperations operations_without_integrity() {
  core::DeviceOperations operations = core::engine::engine_operations();
  operations.query_device = [](core::Device& device) {
    auto attributes = core::engine::engine_operations().query_device(device);
    attributes->capabilities = attributes->capabilities.without(core::DeviceCapability::Integrity);
    return attributes;
  };
  return operations;
}

class IserProtection : public ::testing::Test {
 protected:
  IserProtection() {
    world_.connect(log_, {.protects = true});
    world_.login(log_);
    for (std::size_t i = 0; i < data_.size(); ++i) {
      data_[i] = static_cast<std::byte>((i * 13 + i / 300) & 0xFF);
    }
    for (std::uint32_t i = 0; i < kBlocks; ++i) {
      store(i, {.guard = wire::crc_t10_dif(block(i)),
                .application_tag = kTag,
                .reference_tag = kFirst + i});
    }
  }

  [[nodiscard]] MutableByteSpan block(std::uint32_t i) {
    return MutableByteSpan{data_}.subspan(std::size_t{i} * kBlock, kBlock);
  }
  [[nodiscard]] MutableByteSpan tuple(std::uint32_t i) {
    return MutableByteSpan{tuples_}.subspan(std::size_t{i} * scsi::kTupleBytes, scsi::kTupleBytes);
  }
  void store(std::uint32_t i, const ProtectionTuple& content) {
    std::ranges::copy(wire::pack(content), tuple(i).begin());
  }
  [[nodiscard]] TaskProtection protection() {
    return {.first_block = kFirst, .application_tag = kTag, .tuples = list_of(tuples_)};
  }
  [[nodiscard]] static TaskProtection unchecked(TaskProtection protection) {
    protection.checks_guard = false;
    protection.checks_application_tag = false;
    protection.checks_reference_tag = false;
    return protection;
  }
  /// Tuples on the wire alone: the adapter makes them, or checks and drops them.
  [[nodiscard]] static TaskProtection on_wire_only(TaskProtection protection) {
    protection.in_memory = false;
    protection.tuples.clear();
    return protection;
  }

  struct Outcome {
    std::uint8_t status{0xFF};
    ProtectionVerdict verdict{};
    std::uint64_t sector{};
  };
  /// One command for all blocks of `data_`, in pieces.
  [[nodiscard]] Outcome run(bool writes, unsigned field, const TaskProtection& protection) {
    Task task;
    world_.set_up(task, writes, kFirst, data_, 5'000);
    task.command.cdb[1] = static_cast<std::byte>(field << 5);
    task.protection = protection;
    const auto sent = world_.link().transmit(task);
    EXPECT_TRUE(sent) << sent.error().reason;
    if (!sent) {
      return {};
    }
    EXPECT_EQ(task.plan.total(), 0U);
    Outcome outcome;
    outcome.status = world_.next<ScsiResponse>(log_).status;
    outcome.verdict = check_protection(task, outcome.sector);
    return outcome;
  }

  World world_{1, {.protection = scsi::ProtectionType::Type1}};
  PduLog log_;
  std::vector<std::byte> data_ = std::vector<std::byte>(std::size_t{kBlocks} * kBlock);
  std::vector<std::byte> tuples_ = std::vector<std::byte>(std::size_t{kBlocks} * scsi::kTupleBytes);
};

// R-ISER-21: nothing is found where nothing is wrong, in each of the three ways.
TEST_F(IserProtection, GoesWithTheDataOrIsMadeAndTakenOffByTheAdapter) {
  const std::vector<std::byte> data = data_;
  const std::vector<std::byte> tuples = tuples_;
  const std::array ways{protection(), on_wire_only(protection())};
  for (const TaskProtection& written : ways) {
    EXPECT_EQ(run(true, kChecked, written).status, 0);
    for (const TaskProtection& read : ways) {
      std::ranges::fill(data_, std::byte{0xEE});
      std::ranges::fill(tuples_, std::byte{0xEE});
      const Outcome outcome = run(false, kChecked, read);
      EXPECT_EQ(outcome.status, 0);
      EXPECT_EQ(outcome.verdict, ProtectionVerdict::None);
      EXPECT_EQ(data_, data);
      EXPECT_EQ(tuples_, read.in_memory ? tuples : std::vector(tuples.size(), std::byte{0xEE}));
      tuples_ = tuples;
    }
  }
  // In memory alone: no octet more than the data is on the wire.
  TaskProtection inserted = protection();
  inserted.on_wire = false;
  std::ranges::fill(tuples_, std::byte{});
  EXPECT_EQ(run(false, 0, inserted).verdict, ProtectionVerdict::None);
  EXPECT_EQ(tuples_, tuples);
  EXPECT_EQ(run(true, 0, inserted).verdict, ProtectionVerdict::None);
  EXPECT_EQ(world_.link().registrations()->taken(), 0U);
}

// T-ISER-6, at each of 64 sectors; damage that the host sends, and damage that the disk has kept.
TEST_F(IserProtection, DamageToEachTagOfEachSectorIsNamedInScsisOrder) {
  for (std::uint32_t sector = 0; sector < kBlocks; ++sector) {
    const auto good = *wire::parse<ProtectionTuple>(tuple(sector));
    for (const auto verdict : {ProtectionVerdict::Guard, ProtectionVerdict::ApplicationTag,
                               ProtectionVerdict::ReferenceTag}) {
      ProtectionTuple bad = good;
      bad.guard ^= verdict == ProtectionVerdict::Guard ? 1U : 0U;
      bad.application_tag ^= verdict == ProtectionVerdict::ApplicationTag ? 0x8000U : 0U;
      bad.reference_tag ^= verdict == ProtectionVerdict::ReferenceTag ? 0x100U : 0U;
      store(sector, bad);
      const Outcome written = run(true, kUnchecked, protection());
      EXPECT_EQ(written.status, 0);
      EXPECT_EQ(written.verdict, verdict) << sector;
      EXPECT_EQ(written.sector, kFirst + sector);
      for (const TaskProtection& read : {protection(), on_wire_only(protection())}) {
        std::ranges::fill(tuples_, std::byte{});
        const Outcome found = run(false, kUnchecked, read);
        EXPECT_EQ(found.status, 0);
        EXPECT_EQ(found.verdict, verdict) << sector;
        EXPECT_EQ(found.sector, kFirst + sector);
      }
      EXPECT_EQ(run(false, kUnchecked, unchecked(protection())).verdict, ProtectionVerdict::None);
      EXPECT_EQ(*wire::parse<ProtectionTuple>(tuple(sector)), bad);
      store(sector, good);
    }
  }
}

// SCSI's codes are 10h/01h to 03h; the device's own order is another.
TEST_F(IserProtection, TheDiskThatChecksItselfSaysTheSameInItsSenseData) {
  EXPECT_EQ(run(true, kChecked, protection()).status, 0);
  ProtectionTuple bad = *wire::parse<ProtectionTuple>(tuple(5));
  bad.reference_tag = 1;
  store(5, bad);
  const Outcome refused = run(true, kChecked, protection());
  EXPECT_EQ(refused.status, 2);
  EXPECT_EQ(refused.verdict, ProtectionVerdict::ReferenceTag);
  EXPECT_EQ(refused.sector, kFirst + 5U);
}

// R-ISER-11.
TEST_F(IserProtection, TheHostOffersItWhereTheDeviceCanAndTheConnectionWasMadeForIt) {
  const ScsiHost& host = world_.session->host();
  EXPECT_EQ(host.protections.bits(), 0x7F);
  EXPECT_EQ(host.guards.bits(), 3);
  PduLog plain_log;
  World plain;
  plain.connect(plain_log);
  EXPECT_TRUE(plain.session->host().protections.empty());
  EXPECT_TRUE(plain.session->host().guards.empty());
  plain.login(plain_log);
  Task task;
  plain.set_up(task, false, 0, data_);
  task.protection = protection();
  const auto sent = plain.link().transmit(task);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::NotSupported);
  World unable{1, {.initiator_device = {.operations = operations_without_integrity}}};
  PduLog unable_log;
  unable.connect(unable_log, {.protects = true});
  EXPECT_TRUE(unable.session->host().protections.empty());
}

TEST(IserProtectionRules, AreThoseOfTheDisksType) {
  TaskProtection type_3{.type = scsi::ProtectionType::Type3, .first_block = 7};
  EXPECT_EQ(signature_of(type_3).check_mask, verbs::kCheckGuard | verbs::kCheckApplicationTag);
  EXPECT_FALSE(signature_of(type_3).wire.dif.remaps_reference_tag);
  EXPECT_TRUE(signature_of(type_3).wire.dif.reference_escape);
  TaskProtection type_2{
      .type = scsi::ProtectionType::Type2, .first_block = 7, .first_reference = 900};
  EXPECT_EQ(signature_of(type_2).wire.dif.reference_tag, 900U);
  EXPECT_TRUE(signature_of(type_2).memory.dif.remaps_reference_tag);
  TaskProtection type_1{.first_block = 0x1'0000'0007};
  EXPECT_EQ(signature_of(type_1).memory.dif.reference_tag, 7U);
  EXPECT_EQ(wire_bytes_of(type_1, 4 * 512), 4U * 520);
  type_1.memory_guard = scsi::GuardKind::IpChecksum;
  EXPECT_EQ(signature_of(type_1).memory.dif.guard, core::T10DifDomain::Guard::IpChecksum);
  EXPECT_EQ(signature_of(type_1).wire.dif.guard, core::T10DifDomain::Guard::Crc);
}

}  // namespace
}  // namespace weft::iser
