#include "ulp/opa_vnic/trap_pacer.h"

#include <gtest/gtest.h>

namespace weft::opa_vnic {
namespace {

using wire::VemaEvent;

Instant at(std::int64_t milliseconds) { return Instant{Duration::milliseconds(milliseconds)}; }

TEST(TrapPacer, SendsFiveInAWindowAndTheLastChangeAfterIt) {  // R-VN-13
  TrapPacer pacer;
  unsigned sent = 0;
  for (std::int64_t now = 0; now < 1000; now += 5) {
    pacer.report(VemaEvent::UnicastMacsChanged, at(now));
    sent += pacer.take(at(now)) ? 1U : 0U;
  }
  EXPECT_EQ(sent, 5U);
  EXPECT_EQ(pacer.deadline(), Instant{} + Duration::nanoseconds(4096LL << 18));
  EXPECT_FALSE(pacer.take(at(1073)));
  EXPECT_EQ(pacer.take(at(1074)), VemaEvent::UnicastMacsChanged);
}

TEST(TrapPacer, RepeatsUntilItIsSettled) {
  TrapPacer pacer;
  pacer.report(VemaEvent::LinkStatusChanged, at(0));
  EXPECT_TRUE(pacer.take(at(0)));
  EXPECT_FALSE(pacer.take(at(1999)));
  EXPECT_EQ(pacer.take(at(2000)), VemaEvent::LinkStatusChanged);
  pacer.settle(VemaEvent::UnicastMacsChanged);  // another one
  EXPECT_TRUE(pacer.take(at(4000)));
  pacer.settle(VemaEvent::LinkStatusChanged);
  EXPECT_EQ(pacer.deadline(), Instant::never());
  EXPECT_FALSE(pacer.take(at(9000)));
}

TEST(TrapPacer, GivesUpInTheEnd) {
  TrapPacer pacer{{.most_repeats = 2}};
  pacer.report(VemaEvent::MulticastMacsChanged, at(0));
  unsigned sent = 0;
  for (std::int64_t now = 0; now < 60'000; now += 100) {
    sent += pacer.take(at(now)) ? 1U : 0U;
  }
  EXPECT_EQ(sent, 3U);
  EXPECT_EQ(pacer.deadline(), Instant::never());
}

}  // namespace
}  // namespace weft::opa_vnic
