#include "daemon/traffic_counters.h"

#include <gtest/gtest.h>

namespace weft::daemon {
namespace {

constexpr fabric::PortIndex kPort{1};

[[nodiscard]] Instant at_us(std::int64_t count) { return Instant{Duration::microseconds(count)}; }

/// Two ports, of which programs count `live`.
class TrafficCountersTest : public ::testing::Test {
 protected:
  TrafficCountersTest() {
    counters.resize(2);
    counters.begin([this](const fabric::CounterLedger&) {
      ++readings;
      fabric::CounterSum sum;
      sum.ports = {{}, live};
      sum.ports[1] -= taken_off;
      sum.details[kPort] = live_details;
      return sum;
    });
  }
  fabric::PortCounters live;
  fabric::PortCounters taken_off;
  fabric::PortDetails live_details;
  int readings{};
  TrafficCounters counters;
};

TEST_F(TrafficCountersTest, ReadOnceForManyQuestionsOfOneMoment) {
  live.xmit_packets = 5;
  EXPECT_EQ(counters.read(kPort, at_us(0)).xmit_packets, 5U);
  live.xmit_packets = 6;
  EXPECT_EQ(counters.read(kPort, at_us(999)).xmit_packets, 5U);
  EXPECT_EQ(readings, 1);
  EXPECT_EQ(counters.read(kPort, at_us(1'000)).xmit_packets, 6U);
}

TEST_F(TrafficCountersTest, AreSetAtOnce) {
  live.xmit_packets = 5;
  EXPECT_EQ(counters.read(kPort, at_us(0)).xmit_packets, 5U);
  counters.set(kPort, {.xmit_packets = 1}, at_us(10));
  EXPECT_EQ(counters.read(kPort, at_us(20)).xmit_packets, 1U);
}

TEST_F(TrafficCountersTest, DetailsAreThoseOfTheSumsAndSetForThemselves) {
  live.xmit_data = 50;
  live_details.xmit_data[2] = 20;
  live_details.of(fabric::PathEnd::Looping) = 4;
  fabric::PortDetails details = counters.read_details(kPort, at_us(0));
  EXPECT_EQ(details.xmit_data[0], 30U);
  EXPECT_EQ(details.xmit_data[2], 20U);
  counters.set(kPort, {}, at_us(10));
  EXPECT_EQ(counters.read_details(kPort, at_us(20)), details) << "a Set of sums is none of details";
  details.xmit_data[0] = 7;
  details.of(fabric::PathEnd::Looping) = 0;
  counters.set_details(kPort, details, at_us(30));
  EXPECT_EQ(counters.read_details(kPort, at_us(40)), details);
  live.xmit_data = 60;
  taken_off.xmit_data = 50;  // as the ledger's reader takes off what set() took
  details.xmit_data[0] = 17;
  EXPECT_EQ(counters.read_details(kPort, at_us(2'000)), details);
  EXPECT_EQ(counters.read(kPort, at_us(2'000)).xmit_data, 10U);
}

TEST_F(TrafficCountersTest, GrowWithTheFabric) {
  ++counters.own(kPort).link_downed;
  counters.resize(3);
  ++counters.own(fabric::PortIndex{2}).xmit_packets;
  EXPECT_EQ(counters.ledger().own(kPort).link_downed, 1U);
}

}  // namespace
}  // namespace weft::daemon
