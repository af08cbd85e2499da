#include "programs/load/load_meter.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace weft::programs::load {
namespace {

using scsi::Verdict;

constexpr std::uint32_t kBlock = 512;
constexpr std::uint32_t kBytes = 4096;
constexpr std::uint32_t kBlocks = kBytes / kBlock;

[[nodiscard]] scsi::DiskProperties unit_of(std::uint64_t blocks) {
  scsi::DiskProperties unit;
  unit.blocks = blocks;
  unit.block_bytes = kBlock;
  return unit;
}

[[nodiscard]] Instant at(std::int64_t microseconds) {
  return Instant{Duration::microseconds(microseconds)};
}

TEST(Load, PercentilesAreOfAllSamples) {
  std::vector<float> samples(101);
  std::iota(samples.rbegin(), samples.rend(), 0.0F);
  EXPECT_DOUBLE_EQ(percentile(samples, 0.5), 50);
  EXPECT_DOUBLE_EQ(percentile(samples, 0.99), 99);
  EXPECT_DOUBLE_EQ(percentile(samples, 1), 100);
  std::vector<float> none;
  EXPECT_DOUBLE_EQ(percentile(none, 0.5), 0);
}

TEST(Load, RatesAreOfTheMeasuredTime) {
  const LoadResult result{
      .sessions = 2, .commands = 1000, .login_seconds = 0.25, .seconds = 2, .median_us = 12.5};
  EXPECT_EQ(to_json(result, 1 << 20),
            R"({"sessions": 2, "refused": 0, "lost": 0, "commands": 1000, "failed": 0, )"
            R"("login_seconds": 0.250000, "seconds": 2.000000, "per_second": 500.0, )"
            R"("mib_per_second": 500.00, "median_us": 12.500, "percentile_99_us": 0.000, )"
            R"("cpu_us": 0.000})");
  EXPECT_NE(to_text({}, kBytes).find("0 commands in 0.00 s"), std::string::npos);
}

TEST(Load, CommandsHaveRoomInTheUnit) {
  EXPECT_FALSE(LoadMeter::create(unit_of(kBlocks - 1), {.bytes = kBytes}));
  EXPECT_FALSE(LoadMeter::create(unit_of(kBlocks), {.bytes = kBytes - 1}));
  EXPECT_TRUE(LoadMeter::create(unit_of(kBlocks), {.bytes = kBytes}));
}

TEST(Load, PlacesFollowOneAnotherAndBeginAnew) {
  auto meter =
      *LoadMeter::create(unit_of(2 * kBlocks + 1), {.bytes = kBytes, .is_sequential = true});
  for (const std::uint64_t lba : {0U, kBlocks, 0U, kBlocks}) {
    const auto extent = meter.next();
    EXPECT_EQ(extent.lba, lba);
    EXPECT_EQ(extent.blocks, kBlocks);
  }
}

TEST(Load, PlacesAtRandomAreAllOfTheUnit) {
  constexpr std::uint64_t kPlaces = 16;
  auto meter = *LoadMeter::create(unit_of(kPlaces * kBlocks), {.bytes = kBytes});
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto extent = meter.next();
    EXPECT_EQ(extent.lba % kBlocks, 0U);
    seen.insert(extent.lba / kBlocks);
  }
  EXPECT_EQ(seen.size(), kPlaces);
  EXPECT_EQ(*seen.rbegin(), kPlaces - 1);
}

TEST(Load, CountsWhatWasAnsweredWellAndWhatWasNot) {
  auto meter = *LoadMeter::create(unit_of(kBlocks), {.bytes = kBytes, .seconds = 1});
  meter.start(at(0));
  EXPECT_FALSE(meter.has_begun());
  EXPECT_FALSE(meter.is_over(at(5'000'000)));
  meter.begin(at(500'000));
  meter.count(Verdict::Done, at(500'000), at(500'010));
  meter.count(Verdict::Done, at(500'000), at(500'030));
  meter.count(Verdict::Again, at(500'000), at(500'030));  // a unit attention
  meter.count(Verdict::Conflict, at(500'000), at(500'030));
  meter.count_failure();
  EXPECT_FALSE(meter.is_over(at(1'499'999)));
  EXPECT_TRUE(meter.is_over(at(1'500'000)));
  meter.end(at(2'500'000));
  const LoadResult result = meter.finish();
  EXPECT_EQ(result.commands, 2U);
  EXPECT_EQ(result.failed, 2U);
  EXPECT_FALSE(result.is_whole());
  EXPECT_DOUBLE_EQ(result.login_seconds, 0.5);
  EXPECT_DOUBLE_EQ(result.seconds, 2);
  EXPECT_NEAR(result.median_us, 10, 0.1);
}

}  // namespace
}  // namespace weft::programs::load
