// Commands whose transport makes, checks and takes off the tuples in the disk's place (SBC-3
// §4.22).

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "scsi/protection.h"
#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Answer;
using testing::Bench;
using testing::Bytes;
using testing::bytes;
using testing::cdb10;
using testing::cdb16;
using testing::Exchange;
using testing::pattern;
using testing::with_naca;

constexpr std::uint32_t kBlock = 512;
constexpr std::size_t kBlocks = 4;
constexpr std::uint64_t kFirst = 40;
constexpr unsigned kRead = 0x28;
constexpr unsigned kWrite = 0x2A;
constexpr unsigned kChecked = 1 << 5;  // RDPROTECT, WRPROTECT 001b
constexpr unsigned kUnchecked = 3 << 5;

class SeparateTuple : public ::testing::Test {
 protected:
  [[nodiscard]] std::optional<BlockProtection> protection_of(const Bytes& cdb) const {
    return bench_.target.protection_of(0, cdb);
  }
  /// The command with its tuples apart, as the transport was told, or as `how`.
  Answer run(const Bytes& cdb, const Bytes& data_out, Bytes& tuples,
             std::optional<ProtectionError> fault = std::nullopt,
             std::optional<BlockProtection> how = std::nullopt) {
    const auto told = protection_of(cdb);
    EXPECT_TRUE(told);
    exchanges_.push_back(
        std::make_unique<Exchange>(cdb, data_out, data_out.empty() ? told->block_bytes() : 0));
    Command& command = exchanges_.back()->command;
    command.nexus = nexus_;
    command.tag = next_tag_++;
    command.apart = SeparateTuples{.how = how.value_or(*told), .tuples = tuples, .fault = fault};
    bench_.target.submit(command);
    return exchanges_.back()->answer;
  }
  /// What the disk itself puts together, unchecked.
  [[nodiscard]] Bytes stored() {
    return bench_.run(nexus_, cdb10(kRead, kFirst, kBlocks, kUnchecked), {}, kBlocks * 520).data;
  }
  [[nodiscard]] static Bytes together(const Bytes& data, const Bytes& tuples) {
    Bytes out(kBlocks * 520);
    interleave_protection(kBlock, data, tuples, out);
    return out;
  }

  Bench bench_{
      {.unit = {.serial = "SN01", .protection = ProtectionType::Type1}, .keeps_protection = true}
  };
  NexusId nexus_ = bench_.open(1);
  std::vector<std::unique_ptr<Exchange>> exchanges_;
  std::uint64_t next_tag_{1};
};

TEST_F(SeparateTuple, AreOfReadsAndWritesOfADiskThatKeepsThem) {
  const auto written = protection_of(cdb10(kWrite, kFirst, kBlocks, kChecked));
  ASSERT_TRUE(written);
  EXPECT_TRUE(written->writes);
  EXPECT_EQ(written->lba, kFirst);
  EXPECT_EQ(written->transfer_bytes(), kBlocks * 520);
  EXPECT_EQ(written->check.expected_reference, kFirst);
  EXPECT_TRUE(written->check.guard);
  EXPECT_FALSE(written->check.application_tag) << "its CDB names none";
  const auto read = protection_of(cdb16(0x88, kFirst, kBlocks));
  ASSERT_TRUE(read);
  EXPECT_FALSE(read->writes);
  EXPECT_EQ(read->transfer_bytes(), kBlocks * kBlock);
  EXPECT_FALSE(protection_of(cdb10(kRead, kFirst, kBlocks, kUnchecked))->check.guard);
  EXPECT_FALSE(protection_of(cdb10(kRead, kFirst, kBlocks, 6 << 5))) << "no such RDPROTECT";
  EXPECT_FALSE(protection_of(cdb10(0x2E, kFirst, kBlocks))) << "WRITE AND VERIFY";
  EXPECT_FALSE(protection_of(bytes({0x12, 0, 0, 0, 36, 0})));
  EXPECT_FALSE(bench_.target.protection_of(1ULL << 48, cdb10(kRead, 0, 1))) << "no such unit";
  Bench plain;
  EXPECT_FALSE(plain.target.protection_of(0, cdb10(kRead, 0, 1)));
}

// A CHECK CONDITION of what is read would come too late for an ACA condition.
TEST_F(SeparateTuple, AreTheDisksWhereAFailureStopsOthers) {
  EXPECT_FALSE(protection_of(with_naca(cdb10(kRead, kFirst, kBlocks))));
  EXPECT_TRUE(protection_of(with_naca(cdb10(kWrite, kFirst, kBlocks))));
}

TEST_F(SeparateTuple, AreStoredAndReadAsTheyAre) {
  const Bytes data = pattern(kBlocks * kBlock, 3);
  Bytes tuples = pattern(kBlocks * kTupleBytes, 5);  // which no check would let pass
  EXPECT_TRUE(run(cdb10(kWrite, kFirst, kBlocks, kChecked), data, tuples).good());
  EXPECT_EQ(stored(), together(data, tuples));
  for (const unsigned flags : {0U, kChecked}) {
    Bytes found(tuples.size());
    const Answer answer = run(cdb10(kRead, kFirst, kBlocks, flags), {}, found);
    EXPECT_TRUE(answer.good());
    EXPECT_EQ(answer.data, data);
    EXPECT_EQ(answer.completion.residual, 0);
    EXPECT_EQ(found, tuples);
  }
}

TEST_F(SeparateTuple, ThatFailedTheirCheckEndTheirCommandUnwritten) {
  const Bytes before = stored();
  const Bytes data = pattern(kBlocks * kBlock, 3);
  for (const auto& [fault, code] : {
           std::pair{ProtectionFault::Guard,          SenseCode::GuardCheckFailed         },
           std::pair{ProtectionFault::ApplicationTag, SenseCode::ApplicationTagCheckFailed},
           std::pair{ProtectionFault::ReferenceTag,   SenseCode::ReferenceTagCheckFailed  }
  }) {
    Bytes tuples(kBlocks * kTupleBytes);
    const Answer answer = run(cdb10(kWrite, kFirst, kBlocks, kChecked), data, tuples,
                              ProtectionError{.fault = fault, .block = 2});
    EXPECT_EQ(answer.sense(), testing::sense(SenseKey::AbortedCommand, code));
    EXPECT_EQ(load32(answer.completion.sense.octets(), 3), kFirst + 2);
    EXPECT_EQ(stored(), before);
    const auto how = protection_of(cdb10(kRead, kFirst, kBlocks));
    const Completion late = bench_.target.failed_check(0, *how, {.fault = fault, .block = 2});
    EXPECT_EQ(late.status, Status::CheckCondition);
    EXPECT_TRUE(std::ranges::equal(late.sense.octets(), answer.completion.sense.octets()));
  }
}

// As by a FORMAT UNIT that came before the command, but after the transport had asked.
TEST_F(SeparateTuple, OfAnotherProtectionThanTheDisksAreToComeAgain) {
  const Bytes before = stored();
  const Bytes cdb = cdb10(kWrite, kFirst, kBlocks, kChecked);
  BlockProtection how = *protection_of(cdb);
  how.check.type = ProtectionType::Type3;
  Bytes tuples(kBlocks * kTupleBytes);
  const Answer answer = run(cdb, pattern(kBlocks * kBlock, 3), tuples, std::nullopt, how);
  EXPECT_EQ(answer.status(), Status::Busy);
  EXPECT_EQ(stored(), before);
}

}  // namespace
}  // namespace weft::scsi
