#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "scsi/testing/bench_target.h"

namespace weft::scsi {
namespace {

using testing::Answer;
using testing::Bench;
using testing::bytes;
using testing::Bytes;

Answer inquire(Bench& bench, NexusId nexus, int page = -1, unsigned length = 255) {
  return bench.run(nexus,
                   bytes({0x12, page < 0 ? 0u : 1u, page < 0 ? 0u : static_cast<unsigned>(page),
                          length >> 8, length & 0xFF, 0}),
                   {}, length);
}

TEST(Inquiry, StandardDataSaysWhatTheUnitIs) {  // SPC-4 §6.6.2
  Bench bench;
  const NexusId nexus = bench.open(1);
  const Answer answer = inquire(bench, nexus);
  ASSERT_TRUE(answer.good());
  ASSERT_EQ(answer.data.size(), 96u);
  EXPECT_EQ(answer.completion.residual, 255 - 96);
  EXPECT_EQ(load32(answer.data, 0), 0x0000'0632u);
  EXPECT_EQ(load8(answer.data, 4), 91);
  EXPECT_EQ(load8(answer.data, 5), 0x38);
  EXPECT_EQ(load8(answer.data, 6), 0x10);  // two ports
  EXPECT_EQ(load8(answer.data, 7), 0x02);
  std::string text;
  for (std::size_t i = 8; i < 36; ++i) {
    text.push_back(static_cast<char>(answer.data[i]));
  }
  EXPECT_EQ(text, "WEFT    VIRTUAL DISK    0001");
}

TEST(Inquiry, IsTruncatedToAllocationLengthAndBuffer) {  // SPC-4 §4.3.5.6
  Bench bench;
  const NexusId nexus = bench.open(1);
  EXPECT_EQ(inquire(bench, nexus, -1, 5).data.size(), 5u);
  const Answer overflow = bench.run(nexus, bytes({0x12, 0, 0, 0, 96, 0}), {}, 36);
  EXPECT_EQ(overflow.data.size(), 36u);
  EXPECT_EQ(overflow.completion.residual, 36 - 96);
}

TEST(Inquiry, NeitherReportsNorClearsUnitAttentions) {  // SAM-5 §5.14.1
  Bench bench;
  const NexusId nexus = bench.open(1, 1, true);
  EXPECT_TRUE(inquire(bench, nexus).good());
  EXPECT_EQ(bench.run(nexus, bytes({0, 0, 0, 0, 0, 0})).sense(),
            testing::sense(SenseKey::UnitAttention, SenseCode::PowerOnOccurred));
}

TEST(Inquiry, EveryListedPageIsThereAndNoOther) {  // SPC-4 §7.8.13
  Bench bench;
  const NexusId nexus = bench.open(1);
  const Answer list = inquire(bench, nexus, 0);
  const std::vector<int> expected{0, 0x80, 0x83, 0x86, 0x8F, 0xB0, 0xB1, 0xB2};
  ASSERT_EQ(list.data.size(), 4 + expected.size());
  for (int page = 0, found = 0; page < 256; ++page) {
    const Answer answer = inquire(bench, nexus, page);
    const bool known = std::ranges::find(expected, page) != expected.end();
    EXPECT_EQ(answer.good(), known) << page;
    if (known) {
      EXPECT_EQ(load8(list.data, 4 + static_cast<std::size_t>(found++)), page);
      EXPECT_EQ(load8(answer.data, 1), page);
      EXPECT_EQ(load16(answer.data, 2), answer.data.size() - 4);
    }
  }
  EXPECT_EQ(bench.run(nexus, bytes({0x12, 0, 0x80, 0, 255, 0}), {}, 255).sense(),
            testing::sense(SenseKey::IllegalRequest, SenseCode::InvalidFieldInCdb));
}

TEST(Inquiry, IdentificationNamesThePortOfTheCommand) {  // SPC-4 §7.8.6
  Bench bench;
  for (const std::uint16_t port : std::initializer_list<std::uint16_t>{1, 2}) {
    const Answer answer = inquire(bench, bench.open(1, port), 0x83);
    ASSERT_TRUE(answer.good());
    EXPECT_EQ(load32(answer.data, 4), 0x0103'0008u);  // binary, NAA, 8 octets
    std::vector<unsigned> kinds;
    for (std::size_t at = 4; at < answer.data.size(); at += 4 + load8(answer.data, at + 3)) {
      const unsigned kind = load8(answer.data, at + 1) & 0x3F;
      kinds.push_back(kind);
      if (kind == 0x14 || kind == 0x15) {  // relative port, port group
        EXPECT_EQ(load16(answer.data, at + 6), port);
      }
    }
    EXPECT_EQ(kinds, (std::vector<unsigned>{0x03, 0x01, 0x14, 0x15, 0x12}));
  }
}

TEST(Inquiry, LimitsAndProvisioningFollowTheDevice) {  // SBC-3 §6.5
  Bench bench({.keeps_protection = true});
  const NexusId nexus = bench.open(1);
  const Answer limits = inquire(bench, nexus, 0xB0);
  EXPECT_EQ(load8(limits.data, 5), 255);
  EXPECT_EQ(load16(limits.data, 6), 8);
  EXPECT_EQ(load32(limits.data, 8), (16u << 20) / 512);
  EXPECT_EQ(load32(limits.data, 24), 256u);
  const Answer thin = inquire(bench, nexus, 0xB2);
  EXPECT_EQ(load8(thin.data, 5), 0xE4);
  EXPECT_EQ(load8(thin.data, 6), 2);
  EXPECT_EQ(load16(inquire(bench, nexus, 0xB1).data, 4), 1);
  EXPECT_EQ(load8(inquire(bench, nexus, 0x86).data, 4), 0x3F);
  EXPECT_EQ(load8(inquire(bench, nexus).data, 5), 0x39);
}

}  // namespace
}  // namespace weft::scsi
