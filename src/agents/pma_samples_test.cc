// Counters sampled over an interval (IBTA vol 1 §16.1.3.2).

#include <gtest/gtest.h>

#include "agents/testing/perf_asker.h"
#include "wire/mad/port_samples.h"

namespace weft::agents {
namespace {

using wire::PerfAttribute;
using PmaSamples = testing::PerfClient;

TEST_F(PmaSamples, SamplesAnInterval) {
  counters("s1", 2) = {.xmit_packets = 100, .rcv_data = 50};
  wire::PortSamplesControl control{
      .port_select = PortNumber{2}, .sample_start = 1'000, .sample_interval = 2'000, .tag = 77};
  control.counter_selects[0] = 3;  // PortXmitPkts
  control.counter_selects[1] = 2;  // PortRcvData
  const auto started = ask(Lid{3}, PerfAttribute::PortSamplesControl, control, true);
  EXPECT_EQ(started.status, 0);
  EXPECT_EQ(started.data.sample_status, wire::SampleStatus::Started);
  EXPECT_EQ(started.data.tick, Pma::kTick);
  EXPECT_EQ(fabric.network.deadline(), fabric.now + Duration::milliseconds(1));

  counters("s1", 2).xmit_packets = 110;
  fabric.now = fabric.now + Duration::milliseconds(1);
  fabric.run();
  control.tag = 78;  // too early: the sampling continues
  EXPECT_EQ(ask(Lid{3}, PerfAttribute::PortSamplesControl, control, true).data.sample_status,
            wire::SampleStatus::Running);
  counters("s1", 2).xmit_packets = 150;
  fabric.now = fabric.now + Duration::milliseconds(2);
  fabric.run();
  counters("s1", 2).xmit_packets = 1'000;
  const auto result = ask(Lid{3}, PerfAttribute::PortSamplesResult, wire::PortSamplesResult{});
  EXPECT_EQ(result.data.sample_status, wire::SampleStatus::Done);
  EXPECT_EQ(result.data.tag, 77);
  EXPECT_EQ(result.data.counters[0], 40U);
  EXPECT_EQ(result.data.counters[1], 0U);
  EXPECT_EQ(ask(Lid{3}, PerfAttribute::PortSamplesResultExtended, wire::PortSamplesResultExtended{})
                .data.counters[0],
            40U);
  EXPECT_EQ(ask(Lid{3}, PerfAttribute::PortSamplesControl, control, true).data.tag, 78);
}

TEST_F(PmaSamples, SamplesFromTheStartOfAnIntervalThatBeginsAtOnce) {
  wire::PortSamplesControl control{.port_select = PortNumber{1}, .sample_interval = 10};
  control.counter_selects[0] = 1;
  ask(Lid{3}, PerfAttribute::PortSamplesControl, control, true);
  counters("s1", 1).xmit_data = 8;
  fabric.now = fabric.now + Duration::microseconds(10);
  EXPECT_EQ(
      ask(Lid{3}, PerfAttribute::PortSamplesResult, wire::PortSamplesResult{}).data.counters[0],
      8U);
}

}  // namespace
}  // namespace weft::agents
