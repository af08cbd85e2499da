// The breakdown of port counters, read and set by MADs (IBTA vol 1 §16.1.4).

#include <gtest/gtest.h>

#include "agents/testing/perf_asker.h"
#include "wire/mad/port_counters.h"
#include "wire/mad/port_details.h"

namespace weft::agents {
namespace {

using fabric::PathEnd;
using wire::PerfAttribute;
using wire::PortDataSl;
using wire::PortRcvErrorDetails;
using wire::PortXmitDiscardDetails;

class PmaDetails : public testing::PerfClient {
 protected:
  fabric::PortDetails& details(const char* node, int number) {
    return fabric.counters.details[fabric.port(node, number)];
  }
  void drop(const char* node, int number, PathEnd end, std::uint64_t packets) {
    count_drop(counters(node, number), fabric.counters.details, fabric.port(node, number), end,
               packets);
  }
};

TEST_F(PmaDetails, ReasonsOfDiscardsAddUpToThem) {
  drop("s1", 2, PathEnd::PortInactive, 3);
  drop("s1", 2, PathEnd::NeighborMtu, 4);
  drop("s1", 2, PathEnd::LifetimeLimit, 5);
  drop("s1", 2, PathEnd::HeadOfQueueLimit, 70'000);
  const auto answer = ask(Lid{3}, PerfAttribute::PortXmitDiscardDetails,
                          PortXmitDiscardDetails{.port_select = PortNumber{2}});
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(answer.data.port_select, PortNumber{2});
  EXPECT_EQ(answer.data.port_inactive_discards, 3);
  EXPECT_EQ(answer.data.port_neighbor_mtu_discards, 4);
  EXPECT_EQ(answer.data.port_sw_lifetime_limit_discards, 5);
  EXPECT_EQ(answer.data.port_sw_hoq_lifetime_limit_discards, 0xFFFF) << "it stops there";
  EXPECT_EQ(ask(Lid{3}, PerfAttribute::PortCountersExtended,
                wire::PortCountersExtended{.port_select = PortNumber{2}})
                .data.port_xmit_discards,
            70'012U);
}

TEST_F(PmaDetails, ReasonsOfReceiveErrorsAddUpToThem) {
  drop("s1", 1, PathEnd::Damaged, 1);
  drop("s1", 1, PathEnd::Malformed, 2);
  drop("s1", 1, PathEnd::DlidMapping, 4);
  drop("s1", 1, PathEnd::Looping, 8);
  const auto answer = ask(Lid{3}, PerfAttribute::PortRcvErrorDetails,
                          PortRcvErrorDetails{.port_select = PortNumber{1}});
  EXPECT_EQ(answer.data, (PortRcvErrorDetails{.port_select = PortNumber{1},
                                              .port_local_physical_errors = 1,
                                              .port_malformed_packet_errors = 2,
                                              .port_dlid_mapping_errors = 4,
                                              .port_looping_errors = 8}));
  const auto sums =
      ask(Lid{3}, PerfAttribute::PortCounters, wire::PortCounters{.port_select = PortNumber{1}});
  EXPECT_EQ(sums.data.port_rcv_errors, 3);
  EXPECT_EQ(sums.data.port_rcv_switch_relay_errors, 12);
}

TEST_F(PmaDetails, ASetWritesWhatIsSelectedAndNoSum) {
  drop("h2", 1, PathEnd::PortInactive, 3);
  drop("h2", 1, PathEnd::HeadOfQueueLimit, 4);
  drop("h2", 1, PathEnd::Damaged, 5);
  drop("h2", 1, PathEnd::Looping, 6);
  const auto discards = ask(Lid{2}, PerfAttribute::PortXmitDiscardDetails,
                            PortXmitDiscardDetails{.port_select = PortNumber{1},
                                                   .counter_select = 1U << 3,
                                                   .port_inactive_discards = 9,
                                                   .port_sw_hoq_lifetime_limit_discards = 1},
                            true);
  EXPECT_EQ(discards.status, 0);
  EXPECT_EQ(discards.data.port_inactive_discards, 3) << "not selected";
  EXPECT_EQ(discards.data.port_sw_hoq_lifetime_limit_discards, 1);
  const auto errors =
      ask(Lid{2}, PerfAttribute::PortRcvErrorDetails,
          PortRcvErrorDetails{.port_select = PortNumber{1}, .counter_select = 1U << 5}, true);
  EXPECT_EQ(errors.data.port_local_physical_errors, 5);
  EXPECT_EQ(errors.data.port_looping_errors, 0);
  EXPECT_EQ(counters("h2", 1).xmit_discards, 7U);
  EXPECT_EQ(counters("h2", 1).rcv_switch_relay_errors, 6U);
  drop("h2", 1, PathEnd::HeadOfQueueLimit, 2);
  EXPECT_EQ(ask(Lid{2}, PerfAttribute::PortXmitDiscardDetails, PortXmitDiscardDetails{})
                .data.port_sw_hoq_lifetime_limit_discards,
            3)
      << "it counts on from there";
}

TEST_F(PmaDetails, DataByServiceLevelAddsUpToTheData) {
  counters("h2", 1) = {.xmit_data = 0x2'0000'0000, .rcv_data = 50};
  details("h2", 1).xmit_data[4] = 0x1'0000'0000;
  details("h2", 1).xmit_data[15] = 7;
  details("h2", 1).rcv_data[1] = 20;
  const auto sent =
      ask(Lid{2}, PerfAttribute::PortXmitDataSl, PortDataSl{.port_select = PortNumber{1}});
  EXPECT_EQ(sent.status, 0);
  EXPECT_EQ(sent.data.data[0], 0xFFFF'FFF9U) << "the rest";
  EXPECT_EQ(sent.data.data[4], 0xFFFF'FFFFU) << "it stops there";
  EXPECT_EQ(sent.data.data[15], 7U);
  const auto received =
      ask(Lid{2}, PerfAttribute::PortRcvDataSl, PortDataSl{.port_select = PortNumber{1}});
  EXPECT_EQ(received.data.data[0], 30U);
  EXPECT_EQ(received.data.data[1], 20U);
}

TEST_F(PmaDetails, ASetOfDataByServiceLevelLeavesTheOthers) {
  counters("h2", 1) = {.xmit_data = 100};
  details("h2", 1).xmit_data[4] = 30;
  PortDataSl wanted{.port_select = PortNumber{1}, .counter_select = 1U << 4};
  wanted.data[4] = 2;
  const auto written = ask(Lid{2}, PerfAttribute::PortXmitDataSl, wanted, true);
  EXPECT_EQ(written.data.data[0], 70U);
  EXPECT_EQ(written.data.data[4], 2U);
  EXPECT_EQ(counters("h2", 1).xmit_data, 100U);
  ask(Lid{2}, PerfAttribute::PortCounters,
      wire::PortCounters{.port_select = PortNumber{1}, .counter_select = 0xFFFF}, true);
  EXPECT_EQ(counters("h2", 1).xmit_data, 0U);
  EXPECT_EQ(ask(Lid{2}, PerfAttribute::PortXmitDataSl, PortDataSl{}).data.data[0], 70U)
      << "a Set of the sum is none of its parts";
}

TEST_F(PmaDetails, AddUpAllPortsOfANode) {
  drop("s1", 1, PathEnd::Looping, 3);
  drop("s1", 2, PathEnd::Looping, 4);
  const PortRcvErrorDetails all{.port_select = Pma::kAllPorts, .counter_select = 0xFFFF};
  EXPECT_EQ(ask(Lid{3}, PerfAttribute::PortRcvErrorDetails, all).data.port_looping_errors, 7);
  EXPECT_EQ(ask(Lid{3}, PerfAttribute::PortRcvErrorDetails, all, true).data.port_looping_errors, 0);
  for (const auto attribute :
       {PerfAttribute::PortRcvErrorDetails, PerfAttribute::PortXmitDiscardDetails,
        PerfAttribute::PortXmitDataSl, PerfAttribute::PortRcvDataSl}) {
    EXPECT_EQ(ask(Lid{3}, attribute, PortRcvErrorDetails{.port_select = PortNumber{3}}).status,
              wire::kMadStatusInvalidField);
  }
}

TEST_F(PmaDetails, WhatIsNotCountedIsRefused) {
  constexpr std::uint16_t kFirst = 0x17;  // PortOpRcvCounters
  constexpr std::uint16_t kLast = 0x1C;   // PortVLXmitWaitCounters
  for (std::uint16_t id = kFirst; id <= kLast; ++id) {
    EXPECT_EQ(ask(Lid{3}, static_cast<PerfAttribute>(id), PortRcvErrorDetails{}).status,
              wire::kMadStatusMethodAttributeUnsupported);
  }
}

}  // namespace
}  // namespace weft::agents
