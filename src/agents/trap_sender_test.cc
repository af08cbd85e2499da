#include "agents/trap_sender.h"

#include <gtest/gtest.h>

#include "wire/mad/mad.h"

namespace weft::agents {
namespace {

constexpr fabric::PortIndex kPort{3};
constexpr Duration kInterval = Duration::milliseconds(100);

[[nodiscard]] wire::Notice notice(wire::Trap trap) {
  return {.trap_number = static_cast<std::uint16_t>(trap)};
}
[[nodiscard]] std::uint64_t tid_of(const PendingTrap& trap) {
  return wire::unpack<wire::MadHeader>(std::span{trap.mad}.first<24>()).transaction_id;
}
[[nodiscard]] Instant at_ms(std::int64_t count) { return Instant{Duration::milliseconds(count)}; }

TEST(TrapSender, SendsAtOnceAndThenAtItsInterval) {
  TrapSender traps;
  traps.raise(kPort, notice(wire::Trap::LinkStateChange), kInterval, at_ms(0));
  const auto first = traps.poll(at_ms(0));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->port, kPort);
  EXPECT_FALSE(traps.poll(at_ms(99)));
  const auto second = traps.poll(at_ms(100));
  ASSERT_TRUE(second);
  EXPECT_EQ(tid_of(*first), tid_of(*second));
}

TEST(TrapSender, IgnoresARepressOfAnEarlierTrap) {
  TrapSender traps;
  traps.raise(kPort, notice(wire::Trap::LinkStateChange), kInterval, at_ms(0));
  const auto first = traps.poll(at_ms(0));
  traps.raise(kPort, notice(wire::Trap::LinkStateChange), kInterval, at_ms(10));
  EXPECT_FALSE(traps.repress(kPort, tid_of(*first)));
  EXPECT_FALSE(traps.poll(at_ms(20)));  // not before the interval ends
  const auto second = traps.poll(at_ms(100));
  ASSERT_TRUE(second);
  EXPECT_NE(tid_of(*first), tid_of(*second));
  EXPECT_TRUE(traps.repress(kPort, tid_of(*second)));
  EXPECT_FALSE(traps.poll(at_ms(1'000)));
  EXPECT_EQ(traps.outstanding(), 0U);
}

TEST(TrapSender, KeepsTheRateAfterARepress) {
  TrapSender traps;
  traps.raise(kPort, notice(wire::Trap::LinkStateChange), kInterval, at_ms(0));
  EXPECT_TRUE(traps.repress(kPort, tid_of(*traps.poll(at_ms(0)))));
  traps.raise(kPort, notice(wire::Trap::LinkStateChange), kInterval, at_ms(1));
  EXPECT_FALSE(traps.poll(at_ms(99)));
  EXPECT_TRUE(traps.poll(at_ms(100)));
}

TEST(TrapSender, OfDifferentNumbersDoNotHoldEachOther) {
  TrapSender traps;
  traps.raise(kPort, notice(wire::Trap::LinkStateChange), kInterval, at_ms(0));
  traps.raise(kPort, notice(wire::Trap::BadMKey), kInterval, at_ms(0));
  EXPECT_TRUE(traps.poll(at_ms(0)));
  EXPECT_TRUE(traps.poll(at_ms(0)));
  traps.forget(kPort);
  EXPECT_EQ(traps.deadline(), Instant::never());
}

TEST(TrapSender, HasALimit) {
  TrapSender traps;
  for (std::uint32_t port = 0; port <= TrapSender::kMaxTraps; ++port) {
    traps.raise(fabric::PortIndex{port}, notice(wire::Trap::BadMKey), kInterval, at_ms(0));
  }
  EXPECT_EQ(traps.outstanding(), TrapSender::kMaxTraps);
  EXPECT_EQ(traps.discarded(), 1U);
}

}  // namespace
}  // namespace weft::agents
