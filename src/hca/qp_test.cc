#include "hca/qp.h"

#include <gtest/gtest.h>

#include <array>

#include "base/process_slot.h"
#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"

namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::post;
using testing::receive;
using testing::signaled;

/// The first packet of a SEND from a to b, not delivered yet.
InFlightPacket first_packet(LoopbackPair& pair) {
  pair.connect();
  const Sge into = pair.b().sge(0, 64);
  EXPECT_TRUE(pair.b().qp->post_recv({
      .wr_id = 1, .sges = {&into, 1}
  }));
  const Sge from = pair.a().sge(0, 64);
  SendWr wr;
  wr.sges = {&from, 1};
  EXPECT_TRUE(pair.a().qp->post_send(wr));
  pair.collect();
  return pair.sent.front();
}

/// SLID and QPN are correct, but another process of the peer's host sent the packet
/// (docs/ARCHITECTURE.md, decision 11).
TEST(Qp, DropsWhatAnotherProcessOfThePeersHostSends) {
  LoopbackPair pair;
  const InFlightPacket in_flight_packet = first_packet(pair);
  Packet packet = in_flight_packet.packet();
  packet.source_slot = slot_of(pair.a().qp->number()) + 7;
  pair.b().hca.handle_packet(PortNumber{1}, packet, pair.now());
  EXPECT_TRUE(pair.poll(*pair.b().recv_cq).empty());
}

TEST(Qp, TakesWhatItsPeerSendsWhetherTheCarrierKnowsItsProcessOrNot) {
  LoopbackPair pair;
  const InFlightPacket in_flight_packet = first_packet(pair);
  Packet packet = in_flight_packet.packet();
  packet.source_slot = slot_of(pair.a().qp->number());
  pair.b().hca.handle_packet(PortNumber{1}, packet, pair.now());
  EXPECT_EQ(pair.poll(*pair.b().recv_cq).size(), 1U);
}

TEST(Qp, SendsAdjacentElementsOfOneRegionAsOnePiece) {  // T-RVT-2, R-RVT-5
  for (const QpType type : {QpType::Rc, QpType::Uc}) {
    LoopbackPair pair{{.type = type}};
    for (std::size_t i = 0; i < pair.a().memory.size(); ++i) {
      pair.a().memory[i] = static_cast<std::byte>(i);
    }
    pair.connect();
    receive(pair.b(), 300);
    const std::array sges{pair.a().sge(0, 30), pair.a().sge(30, 50), pair.a().sge(100, 20),
                          pair.a().sge(120, 9)};
    post(*pair.a().qp, signaled(WrOpcode::Send, sges));
    ASSERT_TRUE(pair.run());
    ASSERT_FALSE(pair.sent.empty());
    EXPECT_EQ(pair.sent.front().pieces, 2U);
    std::vector<std::byte> expected(pair.a().memory.begin(), pair.a().memory.begin() + 80);
    expected.insert(expected.end(), pair.a().memory.begin() + 100, pair.a().memory.begin() + 129);
    EXPECT_EQ(pair.sent.front().payload, expected);
    EXPECT_TRUE(pair.a().hca.deregister_memory(*pair.a().region));  // nothing refers to it any more
  }
}

TEST(Qp, SendsElementsInAnotherOrderThanTheirMemoryPieceByPiece) {
  LoopbackPair pair;
  pair.connect();
  receive(pair.b(), 100);
  const std::array sges{pair.a().sge(30, 10), pair.a().sge(20, 10), pair.a().sge(20, 10)};
  post(*pair.a().qp, signaled(WrOpcode::Send, sges));
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(pair.sent.front().pieces, 3U);
}

}  // namespace
}  // namespace weft::hca
