#include <gtest/gtest.h>

#include <array>

#include "hca/testing/loopback_pair.h"
#include "verbs/mtu.h"

/// The effect on QPs in use when a port's LID or P_Key table changes.
namespace weft::hca {
namespace {

using testing::InFlightPacket;
using testing::LoopbackPair;
using testing::PairOptions;
using testing::Side;

constexpr PortNumber kPort{1};

PortAttributes port_of(const Side& side) { return side.hca.port(kPort); }

void set_pkeys(Side& side, std::vector<PKey> pkeys) {
  PortAttributes port = port_of(side);
  port.pkeys = std::move(pkeys);
  side.hca.set_port(kPort, port);
}

void set_lid(Side& side, Lid lid, std::uint8_t lmc) {
  PortAttributes port = port_of(side);
  port.lid = lid;
  port.lmc = lmc;
  side.hca.set_port(kPort, port);
}

void post(LoopbackPair& pair, const AddressHandle* ah = nullptr) {
  const Sge into = pair.b().sge(0, 200);
  ASSERT_TRUE(pair.b().qp->post_recv({
      .wr_id = 1, .sges = {&into, 1}
  }));
  const Sge from = pair.a().sge(0, 64);
  SendWr wr;
  wr.sges = {&from, 1};
  wr.flags = Send::Signaled;
  wr.ah = ah;
  wr.remote_qpn = pair.b().qp->number();
  wr.remote_qkey = QKey{0x1111};
  ASSERT_TRUE(pair.a().qp->post_send(wr));
}

class PortChange : public ::testing::TestWithParam<QpType> {
 protected:
  static PairOptions options() { return {.type = GetParam(), .retry_count = 2}; }
  /// The address of b from a, with path bits 3.
  static AddressHandle* address_of_b(LoopbackPair& pair) {
    AddressVector address;
    address.dlid = Lid{2};
    address.port = kPort;
    address.source_path_bits = 3;
    return *pair.a().hca.create_ah(*pair.a().pd, address);
  }
};

INSTANTIATE_TEST_SUITE_P(Types, PortChange, ::testing::Values(QpType::Rc, QpType::Uc, QpType::Ud));

TEST_P(PortChange, PacketsLeaveWithTheNewSourceLidAndItsPathBits) {
  PairOptions asked = options();
  asked.source_path_bits = 3;
  for (const std::uint8_t lmc : std::to_array<std::uint8_t>({0, 1, 2})) {
    LoopbackPair pair{asked};
    pair.connect();
    post(pair,
         address_of_b(pair));  // before the change: a datagram's route is fixed when it is posted
    set_lid(pair.a(), Lid{0x40}, lmc);
    pair.collect();
    ASSERT_EQ(pair.sent.size(), 1U);
    EXPECT_EQ(pair.sent[0].header.slid, Lid{0x40U + (3U & ((1U << lmc) - 1))});
  }
}

TEST_P(PortChange, PacketsLeaveAndAreTakenWithTheNewPKeyAtTheIndex) {
  LoopbackPair pair{options()};
  pair.connect();
  AddressHandle* const ah = address_of_b(pair);
  constexpr PKey kNew{0x8123};
  set_pkeys(pair.a(), {kNew});
  post(pair, ah);
  pair.collect();
  ASSERT_EQ(pair.sent.size(), 1U);
  EXPECT_EQ(pair.sent[0].header.pkey, kNew);
  ASSERT_TRUE(pair.deliver_one());
  EXPECT_EQ(pair.b().hca.counters().pkey_violations, 1U);
  EXPECT_TRUE(pair.poll(*pair.b().recv_cq).empty());

  set_pkeys(pair.b(), {kNew});
  pair.b().hca.handle_packet(kPort, pair.sent[0].packet(), pair.now());
  EXPECT_EQ(pair.poll(*pair.b().recv_cq).size(), 1U);
}

TEST(PortChangeOfRc, AnswersLeaveWithTheNewPKeyAndSourceLid) {
  LoopbackPair pair;
  pair.connect();
  post(pair);
  pair.collect();
  ASSERT_TRUE(pair.deliver_one());
  set_pkeys(pair.b(), {PKey{0x7FFF}});
  set_lid(pair.b(), Lid{9}, 0);
  pair.collect();
  ASSERT_EQ(pair.sent.size(), 2U);
  EXPECT_EQ(pair.sent[1].header.pkey, PKey{0x7FFF});
  EXPECT_EQ(pair.sent[1].header.slid, Lid{9});
}

TEST_P(PortChange, WithoutItsPKeyAQpTakesNothing) {
  LoopbackPair pair{options()};
  pair.connect();
  post(pair, address_of_b(pair));
  pair.collect();
  for (const auto& pkeys : {std::vector<PKey>{}, std::vector{PKey{}}, std::vector{PKey{0x8000}}}) {
    set_pkeys(pair.b(), pkeys);
    Packet packet = pair.sent[0].packet();
    packet.header.pkey = pkeys.empty() ? kDefaultPKey : pkeys[0];  // not even with the same key
    pair.b().hca.handle_packet(kPort, packet, pair.now());
    EXPECT_TRUE(pair.poll(*pair.b().recv_cq).empty());
  }
  EXPECT_EQ(pair.b().hca.counters().pkey_violations, 3U);
  EXPECT_FALSE(pair.b().events.reasons.empty());

  set_pkeys(pair.b(), {kDefaultPKey});
  pair.b().hca.handle_packet(kPort, pair.sent[0].packet(), pair.now());
  EXPECT_EQ(pair.poll(*pair.b().recv_cq).size(), 1U);
}

/// The packet is lost as on the wire; a service that guarantees delivery reports it.
TEST_P(PortChange, WithoutItsPKeyAQpSendsNothing) {
  for (const LossModel loss_model : {LossModel::Lossy, LossModel::Reliable}) {
    PairOptions asked = options();
    asked.loss_model = loss_model;
    LoopbackPair pair{asked};
    pair.connect();
    set_pkeys(pair.a(), {PKey{}, kDefaultPKey});
    post(pair, address_of_b(pair));
    ASSERT_TRUE(pair.run());
    EXPECT_TRUE(pair.sent.empty());
    const auto done = pair.poll(*pair.a().send_cq);
    ASSERT_EQ(done.size(), 1U);
    EXPECT_EQ(done[0].status,
              GetParam() == QpType::Rc ? WcStatus::RetryExceeded : WcStatus::Success);
  }
}

TEST_P(PortChange, AConnectionOutlivesAMomentWithoutItsPKey) {
  LoopbackPair pair{options()};
  pair.connect();
  set_pkeys(pair.a(), {});
  post(pair, address_of_b(pair));
  pair.collect();
  set_pkeys(pair.a(), {kDefaultPKey});
  post(pair, address_of_b(pair));
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(pair.poll(*pair.a().send_cq).size(), 2U);
  // RC retransmits what was lost; a UC message or datagram stays lost.
  EXPECT_EQ(pair.poll(*pair.b().recv_cq).size(), GetParam() == QpType::Rc ? 2U : 1U);
}

TEST(PortChangeOfUd, TheLongestDatagramFollowsThePortsMtu) {
  LoopbackPair pair{{.type = QpType::Ud}};
  pair.connect();
  PortAttributes port = port_of(pair.a());
  port.active_mtu = verbs::Mtu::Mtu512;
  pair.a().hca.set_port(kPort, port);
  EXPECT_EQ(pair.a().qp->query().path_mtu, verbs::Mtu::Mtu512);
}

TEST(PortChangeOfReset, AQpThatIsInResetStaysAsItIs) {
  LoopbackPair pair;
  set_pkeys(pair.a(), {PKey{0x8005}});
  EXPECT_EQ(pair.a().qp->query().state, QpState::Reset);
  pair.connect();
  post(pair);
  pair.collect();
  EXPECT_EQ(pair.sent.front().header.pkey, PKey{0x8005});
}

}  // namespace
}  // namespace weft::hca
