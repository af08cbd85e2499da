// Packets with a wrong P_Key or Q_Key are dropped, counted and reported (IBTA vol 1 §9.6.1.1,
// §10.2.4).

#include <gtest/gtest.h>

#include "hca/testing/loopback_pair.h"
#include "hca/testing/work_requests.h"

namespace weft::hca {
namespace {

using testing::LoopbackPair;
using testing::PairOptions;
using testing::receive;
using testing::request;

/// Applies `change` to the first packet that a sends to b, and delivers it.
template <class Change>
void arrive_changed(LoopbackPair& pair, Change change) {
  pair.connect();
  receive(pair.b(), 512);
  request(pair, {});
  pair.collect();
  ASSERT_FALSE(pair.sent.empty());
  testing::InFlightPacket in_flight_packet = pair.sent[0];
  change(in_flight_packet.header);
  pair.b().hca.handle_packet(PortNumber{1}, in_flight_packet.packet(), pair.now());
  EXPECT_TRUE(pair.poll(*pair.b().recv_cq).empty());
}

TEST(BadKeys, OfADatagramSayWhoseTheyAre) {
  LoopbackPair pair{{.type = QpType::Ud}};
  arrive_changed(pair, [](PacketHeader& header) {
    header.sl = ServiceLevel{3};
    header.extension.deth.qkey = QKey{0x2222};
    header.has_grh = true;
    header.grh.sgid = Gid{1, Guid{2}};
  });
  ASSERT_EQ(pair.b().events.bad_keys.size(), 1U);
  const BadKey& bad = pair.b().events.bad_keys[0];
  EXPECT_EQ(bad.kind, BadKey::Kind::QKey);
  EXPECT_EQ(bad.key, 0x2222U);
  EXPECT_EQ(bad.port, PortNumber{1});
  EXPECT_EQ(bad.source, testing::lid_of(0));
  EXPECT_EQ(bad.destination, testing::lid_of(1));
  EXPECT_EQ(bad.sl, ServiceLevel{3});
  EXPECT_EQ(bad.source_qp, pair.a().qp->number());
  EXPECT_EQ(bad.destination_qp, pair.b().qp->number());
  EXPECT_EQ(bad.source_gid, (Gid{1, Guid{2}}));
  EXPECT_EQ(pair.b().hca.counters().qkey_violations, 1U);
  EXPECT_EQ(pair.b().hca.counters().pkey_violations, 0U);
}

TEST(BadKeys, OfEachServiceArePKeys) {
  for (const QpType type : {QpType::Rc, QpType::Uc, QpType::Ud}) {
    LoopbackPair pair{{.type = type}};
    arrive_changed(pair, [](PacketHeader& header) { header.pkey = PKey{0x8123}; });
    ASSERT_EQ(pair.b().events.bad_keys.size(), 1U);
    const BadKey& bad = pair.b().events.bad_keys[0];
    EXPECT_EQ(bad.kind, BadKey::Kind::PKey);
    EXPECT_EQ(bad.key, 0x8123U);
    EXPECT_EQ(bad.source_qp, type == QpType::Ud ? pair.a().qp->number() : Qpn{});
    EXPECT_EQ(bad.destination_qp, pair.b().qp->number());
    EXPECT_EQ(pair.b().hca.counters().pkey_violations, 1U);
    EXPECT_EQ(pair.b().hca.counters().qkey_violations, 0U);
  }
}

}  // namespace
}  // namespace weft::hca
