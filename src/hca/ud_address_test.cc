#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "hca/packet_wire.h"
#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"
#include "hca/ud_transport.h"

/// The addressing of datagrams: their source, and the route they take (R-AH-1, R-QP-5 to R-QP-7).
namespace weft::hca {
namespace {

using testing::LoopbackPair;
using testing::receive;
using testing::Side;

/// From `from` through `address`, to a QPN.
void send(Side& from, const AddressVector& address, Qpn to, QKey qkey) {
  const std::array sges{from.sge(0, 8)};
  SendWr wr = testing::signaled(WrOpcode::Send, sges);
  wr.ah = *from.hca.create_ah(*from.pd, address);
  wr.remote_qpn = to;
  wr.remote_qkey = qkey;
  testing::post(*from.qp, wr);
}

[[nodiscard]] AddressVector to_lid(Lid lid) {
  AddressVector address;
  address.dlid = lid;
  address.port = PortNumber{1};
  return address;
}

TEST(Ud, NamesItsQpnSoThatAnAnswerComesBackToIt) {
  LoopbackPair pair{{.type = QpType::Ud}};
  pair.connect();
  Side& a = pair.a();
  Side& b = pair.b();
  receive(b, 64);
  receive(a, 64);
  send(a, to_lid(Lid{2}), b.qp->number(), QKey{0x1111});
  ASSERT_TRUE(pair.run());
  std::vector<std::byte> bytes;
  to_wire(pair.sent.front().packet(), bytes);
  const auto captured = from_wire(bytes);
  ASSERT_TRUE(captured);
  EXPECT_EQ(captured->header.extension.deth.src_qp, a.qp->number());
  const auto received = pair.poll(*b.recv_cq);
  ASSERT_EQ(received.size(), 1U);
  send(b, to_lid(received[0].slid), received[0].src_qpn, QKey{0x1111});
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(pair.poll(*a.recv_cq).size(), 1U);
}

/// A QP of side b that packets call QP1, though the engine has its own number for it.
void take_gsi_number(LoopbackPair& pair) {
  Side& b = pair.b();
  ASSERT_TRUE(b.hca.destroy_qp(*b.qp));
  b.qp = *b.hca.create_qp({
      .type = QpType::Ud,
      .pd = b.pd,
      .send_cq = b.send_cq,
      .recv_cq = b.recv_cq,
      .capabilities = {.max_send_wr = 4, .max_recv_wr = 4, .max_recv_sge = 1},
      .external_number = Qpn{1}
  });
  pair.connect();
}

TEST(Ud, GoesByItsExternalNumberInPackets) {  // R-QP-6, T-QP-5
  LoopbackPair pair{{.type = QpType::Ud}};
  take_gsi_number(pair);
  Side& a = pair.a();
  Side& b = pair.b();
  ASSERT_NE(b.qp->number(), Qpn{1});
  receive(a, 64);
  receive(b, 64);
  receive(b, 64);
  send(b, to_lid(Lid{1}), a.qp->number(), QKey{0x1111});
  ASSERT_TRUE(pair.run());
  EXPECT_EQ(pair.sent.front().header.extension.deth.src_qp, Qpn{1});
  const auto received = pair.poll(*a.recv_cq);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].src_qpn, Qpn{1});

  send(a, to_lid(received[0].slid), received[0].src_qpn, QKey{0x1111});
  ASSERT_TRUE(pair.run());
  const auto answer = pair.poll(*b.recv_cq);
  ASSERT_EQ(answer.size(), 1U);
  EXPECT_EQ(answer[0].qpn, b.qp->number()) << "completions name the engine's number";
}

TEST(Ud, GivesItsExternalNumberBackWhenItEnds) {  // R-QP-6
  LoopbackPair pair{{.type = QpType::Ud}};
  take_gsi_number(pair);
  Side& a = pair.a();
  Side& b = pair.b();
  ASSERT_TRUE(b.hca.destroy_qp(*b.qp));
  send(a, to_lid(Lid{2}), Qpn{1}, QKey{0x1111});
  b.qp = nullptr;
  pair.collect_from(0, 1);
  while (pair.deliver_one()) {
  }
  EXPECT_EQ(b.hca.counters().no_qp, 1U);
}

TEST(Ud, IsRefusedWithAnExternalNumberThatIsNone) {  // R-QP-6
  LoopbackPair pair{{.type = QpType::Ud}};
  Side& a = pair.a();
  const auto created = [&](QpType type, std::uint32_t number) {
    const auto qp = a.hca.create_qp({.type = type,
                                     .pd = a.pd,
                                     .send_cq = a.send_cq,
                                     .recv_cq = a.recv_cq,
                                     .capabilities = {},
                                     .external_number = Qpn{number}});
    return qp ? std::nullopt : std::optional{qp.error().code};
  };
  EXPECT_EQ(created(QpType::Rc, 1), ErrorCode::NotSupported);
  EXPECT_EQ(created(QpType::Ud, 0xFFFFFF), ErrorCode::InvalidArgument);
  EXPECT_EQ(created(QpType::Ud, a.qp->number().value() + 1), ErrorCode::InvalidArgument);
  EXPECT_EQ(created(QpType::Ud, 1), std::nullopt);
  EXPECT_EQ(created(QpType::Ud, 1), ErrorCode::Busy);
}

TEST(Ud, SendsTheQKeyOfTheRequestOrItsOwn) {  // R-QP-7
  constexpr QKey kOwn{0x1111};
  constexpr QKey kItsOwn{0x8000'0000};  // bit 31: the QP's
  LoopbackPair pair{{.type = QpType::Ud}};
  pair.connect();
  for (const auto& [asked, sent] : {
           std::pair{kItsOwn,    kOwn      },
           std::pair{QKey{0x77}, QKey{0x77}}
  }) {
    pair.sent.clear();
    send(pair.a(), to_lid(Lid{2}), pair.b().qp->number(), asked);
    ASSERT_TRUE(pair.run());
    EXPECT_EQ(pair.sent.front().header.extension.deth.qkey, sent);
  }
}

TEST(AddressHandle, GivesTheDatagramItsWayAndClass) {  // T-AH-3
  LoopbackPair pair{{.type = QpType::Ud}};
  pair.connect();
  AddressVector address = to_lid(Lid{2});
  address.sl = ServiceLevel{5};
  address.is_global = true;
  address.grh = {
      .dgid = Gid{kDefaultGidPrefix, Guid{0x11}},
      .flow_label = 0xABCDE,
      .sgid_index = 0,
      .hop_limit = 33,
      .traffic_class = 0x9C
  };
  receive(pair.b(), 64);
  send(pair.a(), address, pair.b().qp->number(), QKey{0x1111});
  ASSERT_TRUE(pair.run());
  std::vector<std::byte> bytes;
  to_wire(pair.sent.front().packet(), bytes);
  const auto captured = from_wire(bytes);
  ASSERT_TRUE(captured) << captured.error().reason;
  const PacketHeader& header = captured->header;
  EXPECT_EQ(header.sl, ServiceLevel{5});
  EXPECT_EQ(header.dlid, Lid{2});
  EXPECT_EQ(header.slid, Lid{1});
  ASSERT_TRUE(header.has_grh);
  EXPECT_EQ(header.grh.flow_label, 0xABCDEU);
  EXPECT_EQ(header.grh.hop_limit, 33U);
  EXPECT_EQ(header.grh.traffic_class, 0x9CU);
  EXPECT_EQ(header.grh.dgid, address.grh.dgid);
  EXPECT_EQ(header.grh.sgid, (Gid{kDefaultGidPrefix, Guid{0x10}}));
  const auto received = pair.poll(*pair.b().recv_cq);
  ASSERT_EQ(received.size(), 1U);
  EXPECT_EQ(received[0].sl, ServiceLevel{5});
  EXPECT_TRUE(received[0].flags.has(Completion::Grh));
}

/// R-RVT-4: no such port, no such GID table entry, no such rate.
TEST(AddressHandle, IsRefusedWithAnAddressThatIsNone) {  // T-AH-2
  LoopbackPair pair;
  const auto is_refused = [&](auto change) {
    AddressVector address = to_lid(Lid{2});
    address.is_global = true;
    change(address);
    return !pair.a().hca.create_ah(*pair.a().pd, address);
  };
  EXPECT_FALSE(is_refused([](AddressVector&) {}));
  EXPECT_FALSE(is_refused([](AddressVector& to) { to.static_rate = 24; }));
  EXPECT_TRUE(is_refused([](AddressVector& to) { to.port = PortNumber{0}; }));
  EXPECT_TRUE(is_refused([](AddressVector& to) { to.port = PortNumber{2}; }));
  EXPECT_TRUE(is_refused([](AddressVector& to) { to.grh.sgid_index = 1; }));
  EXPECT_TRUE(is_refused([](AddressVector& to) { to.static_rate = 1; }));
  EXPECT_TRUE(is_refused([](AddressVector& to) { to.static_rate = 25; }));
}

}  // namespace
}  // namespace weft::hca
