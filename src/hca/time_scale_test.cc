#include <gtest/gtest.h>

#include <array>

#include "hca/testing/loopback_pair.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::PairOptions;

/// Virtual time from the post of a SEND to its failure.
Duration time_to_failure(const PairOptions& options, bool is_silent) {
  LoopbackPair pair{options};
  pair.connect();
  if (is_silent) {
    pair.filter = [](InFlightPacket&) { return false; };
  }
  const Instant start = pair.now();
  const std::array sges{pair.a().sge(0, 8)};
  SendWr wr;
  wr.opcode = WrOpcode::Send;
  wr.sges = sges;
  EXPECT_TRUE(pair.a().qp->post_send(wr));
  EXPECT_TRUE(pair.run());
  EXPECT_EQ(pair.a().qp->query().state, QpState::Err);
  return pair.now() - start;
}

TEST(TimeScale, ShortensTheRetryTimer) {
  PairOptions options{.timeout = 14, .retry_count = 2};
  const Duration whole = time_to_failure(options, true);
  EXPECT_EQ(whole, TimeoutExponent{14}.duration() * 3);
  options.time_scale = TimeScale{500'000};
  EXPECT_EQ(time_to_failure(options, true), whole / 2);
}

TEST(TimeScale, ShortensTheRnrTimer) {
  PairOptions options{.rnr_retry = 2, .min_rnr_timer = 20};  // 10.24 ms
  const Duration waits = Duration::microseconds(2 * 10'240);
  EXPECT_GE(time_to_failure(options, false), waits);
  options.time_scale = TimeScale{10'000};
  const Duration shorter = time_to_failure(options, false);
  EXPECT_GE(shorter, waits / 100);
  EXPECT_LT(shorter, waits / 90) << "the wire takes little";
}

}  // namespace
}  // namespace weft::hca
