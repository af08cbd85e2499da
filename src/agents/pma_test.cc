// Performance management (IBTA vol 1 §16.1).

#include "agents/pma.h"

#include <gtest/gtest.h>

#include "agents/testing/perf_asker.h"
#include "wire/mad/class_port_info.h"
#include "wire/mad/port_counters.h"

namespace weft::agents {
namespace {

using wire::PerfAttribute;
using PmaTest = testing::PerfClient;

TEST_F(PmaTest, ReadsCountersAndStopsThemAtTheirLargestValue) {
  counters("h2", 1) = {.xmit_packets = 17,
                       .xmit_data = 0x1'0000'0000,
                       .rcv_data = 5,
                       .xmit_discards = 70'000,
                       .xmit_wait = 3'000'500,
                       .link_downed = 300};
  const auto answer =
      ask(Lid{2}, PerfAttribute::PortCounters, wire::PortCounters{.port_select = PortNumber{1}});
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.data.port_xmit_packets, 17U);
  EXPECT_EQ(answer.data.port_xmit_data, 0xFFFF'FFFFU);
  EXPECT_EQ(answer.data.port_rcv_data, 5U);
  EXPECT_EQ(answer.data.port_xmit_discards, 0xFFFF);
  EXPECT_EQ(answer.data.link_downed_counter, 0xFF);
  EXPECT_EQ(answer.data.port_xmit_wait, 3'000U);  // microseconds
  const auto extended = ask(Lid{2}, PerfAttribute::PortCountersExtended,
                            wire::PortCountersExtended{.port_select = PortNumber{1}});
  EXPECT_EQ(extended.data.port_xmit_data, 0x1'0000'0000U);
}

TEST_F(PmaTest, SetsOnlyWhatIsSelected) {
  counters("h2", 1) = {.xmit_packets = 17, .rcv_packets = 4, .xmit_wait = 9'000};
  const auto answer =
      ask(Lid{2}, PerfAttribute::PortCounters,
          wire::PortCounters{
              .port_select = PortNumber{1},
              .counter_select = static_cast<std::uint16_t>(wire::PortCounterSelect::XmitPackets)},
          true);
  EXPECT_EQ(answer.data.port_xmit_packets, 0U);
  EXPECT_EQ(answer.data.port_rcv_packets, 4U);
  EXPECT_EQ(counters("h2", 1).xmit_wait, 9'000U);
  ask(Lid{2}, PerfAttribute::PortCounters,
      wire::PortCounters{.port_select = PortNumber{1},
                         .counter_select2 = wire::kSelectPortXmitWait,
                         .port_xmit_wait = 2},
      true);
  EXPECT_EQ(counters("h2", 1).xmit_wait, 2'000U);
  ask(Lid{2}, PerfAttribute::PortCountersExtended,
      wire::PortCountersExtended{
          .port_select = PortNumber{1},
          .counter_select = static_cast<std::uint16_t>(wire::PortCounterExtendedSelect::RcvPackets),
          .port_rcv_packets = 100},
      true);
  EXPECT_EQ(counters("h2", 1).rcv_packets, 100U);
}

TEST_F(PmaTest, CountersOfErrorsDoNotStopWhereTheyAreExtended) {
  counters("h2", 1) = {.xmit_discards = 70'000,
                       .xmit_wait = 0x2'0000'0000'000,
                       .rcv_errors = 0x1'0001,
                       .rcv_switch_relay_errors = 0x1'0002,
                       .link_downed = 300};
  wire::PortCountersExtended asked{.port_select = PortNumber{1}};
  const auto answer = ask(Lid{2}, PerfAttribute::PortCountersExtended, asked);
  EXPECT_EQ(answer.data.link_downed_counter, 300U);
  EXPECT_EQ(answer.data.port_rcv_errors, 0x1'0001U);
  EXPECT_EQ(answer.data.port_rcv_switch_relay_errors, 0x1'0002U);
  EXPECT_EQ(answer.data.port_xmit_discards, 70'000U);
  EXPECT_EQ(answer.data.port_xmit_wait, 0x2'0000'0000'000U / 1'000);  // microseconds
  asked.counter_select2 = static_cast<std::uint32_t>(wire::PortCounterExtendedSelect2::LinkDowned) |
                          static_cast<std::uint32_t>(wire::PortCounterExtendedSelect2::XmitWait);
  asked.port_xmit_wait = 7;
  const auto written = ask(Lid{2}, PerfAttribute::PortCountersExtended, asked, true);
  EXPECT_EQ(written.data.counter_select2, asked.counter_select2);
  EXPECT_EQ(written.data.link_downed_counter, 0U);
  EXPECT_EQ(written.data.port_xmit_wait, 7U);
  EXPECT_EQ(counters("h2", 1).rcv_errors, 0x1'0001U) << "not selected";
  EXPECT_EQ(counters("h2", 1).xmit_wait, 7'000U);
}

TEST_F(PmaTest, AddsUpAllPortsOfANode) {
  counters("s1", 1).xmit_packets = 3;
  counters("s1", 2).xmit_packets = 4;
  const wire::PortCounters all{.port_select = Pma::kAllPorts, .counter_select = 0xFFFF};
  EXPECT_EQ(ask(Lid{3}, PerfAttribute::PortCounters, all).data.port_xmit_packets, 7U);
  EXPECT_EQ(ask(Lid{3}, PerfAttribute::PortCounters, all, true).data.port_xmit_packets, 0U);
  EXPECT_EQ(counters("s1", 1).xmit_packets, 0U);
  EXPECT_EQ(
      ask(Lid{3}, PerfAttribute::PortCounters, wire::PortCounters{.port_select = PortNumber{3}})
          .status,
      wire::kMadStatusInvalidField);
  EXPECT_EQ(
      ask(Lid{2}, PerfAttribute::PortCounters, wire::PortCounters{.port_select = PortNumber{2}})
          .status,
      wire::kMadStatusInvalidField);
}

TEST_F(PmaTest, OfAnHcaPortZeroIsThePortThatIsAsked) {  // perfquery LID
  counters("h2", 1).xmit_packets = 6;
  const auto answer = ask(Lid{2}, PerfAttribute::PortCounters, wire::PortCounters{});
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.data.port_xmit_packets, 6U);
}

TEST_F(PmaTest, SaysWhatItCan) {
  const auto info = ask(Lid{3}, PerfAttribute::ClassPortInfo, wire::ClassPortInfo{});
  EXPECT_EQ(info.data.capability_mask,
            wire::kPerfAllPortSelect | wire::kPerfExtendedWidth | wire::kPerfPortXmitWait);
  EXPECT_EQ(info.data.capability_mask2, wire::kPerfAdditionalExtendedCounters);
  fabric.agents.pma().set_additional_counters(false);
  const auto less = ask(Lid{3}, PerfAttribute::ClassPortInfo, wire::ClassPortInfo{});
  EXPECT_EQ(less.data.capability_mask2, 0U);
  EXPECT_EQ(ask(Lid{3}, PerfAttribute::ClassPortInfo, wire::ClassPortInfo{}, true).status,
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(ask(Lid{3}, static_cast<PerfAttribute>(0x17), wire::PortCounters{}).status,
            wire::kMadStatusMethodAttributeUnsupported);
  EXPECT_EQ(ask(Lid{3}, PerfAttribute::PortCounters,
                wire::PortCounters{.port_select = PortNumber{1}}, false, 5)
                .status,
            wire::kMadStatusInvalidField);
}

}  // namespace
}  // namespace weft::agents
