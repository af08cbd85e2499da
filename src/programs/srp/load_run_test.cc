#include "programs/srp/load_run.h"

#include <gtest/gtest.h>

#include <numeric>

namespace weft::programs::srp {
namespace {

TEST(SrpLoad, PercentilesAreOfAllSamples) {
  std::vector<float> samples(101);
  std::iota(samples.rbegin(), samples.rend(), 0.0F);
  EXPECT_DOUBLE_EQ(percentile(samples, 0.5), 50);
  EXPECT_DOUBLE_EQ(percentile(samples, 0.99), 99);
  EXPECT_DOUBLE_EQ(percentile(samples, 1), 100);
  std::vector<float> none;
  EXPECT_DOUBLE_EQ(percentile(none, 0.5), 0);
}

TEST(SrpLoad, RatesAreOfTheMeasuredTime) {
  const LoadResult result{
      .sessions = 2, .commands = 1000, .login_seconds = 0.25, .seconds = 2, .median_us = 12.5};
  EXPECT_EQ(to_json(result, 1 << 20),
            R"({"sessions": 2, "refused": 0, "lost": 0, "commands": 1000, "failed": 0, )"
            R"("login_seconds": 0.250000, "seconds": 2.000000, "per_second": 500.0, )"
            R"("mib_per_second": 500.00, "median_us": 12.500, "percentile_99_us": 0.000, )"
            R"("cpu_us": 0.000})");
  EXPECT_NE(to_text({}, 4096).find("0 commands in 0.00 s"), std::string::npos);
}

}  // namespace
}  // namespace weft::programs::srp
