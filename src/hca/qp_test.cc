#include "hca/qp.h"

#include <gtest/gtest.h>

#include "base/process_slot.h"
#include "hca/testing/loopback_pair.h"

namespace weft::hca {
namespace {

using testing::Flight;
using testing::LoopbackPair;

/// The first packet of a SEND from a to b, not delivered yet.
Flight first_packet(LoopbackPair& pair) {
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

/// SLID and QPN are right, but another process of the same host sent it (DESIGN.md, decision 11).
TEST(Qp, DropsWhatAnotherProcessOfThePeersHostSends) {
  LoopbackPair pair;
  const Flight flight = first_packet(pair);
  Packet packet = flight.packet();
  packet.source_slot = slot_of(pair.a().qp->number()) + 7;
  pair.b().hca.handle_packet(PortNumber{1}, packet, pair.now());
  EXPECT_TRUE(pair.poll(*pair.b().recv_cq).empty());
}

TEST(Qp, TakesWhatItsPeerSendsWhetherTheCarrierKnowsItsProcessOrNot) {
  LoopbackPair pair;
  const Flight flight = first_packet(pair);
  Packet packet = flight.packet();
  packet.source_slot = slot_of(pair.a().qp->number());
  pair.b().hca.handle_packet(PortNumber{1}, packet, pair.now());
  EXPECT_EQ(pair.poll(*pair.b().recv_cq).size(), 1U);
}

}  // namespace
}  // namespace weft::hca
