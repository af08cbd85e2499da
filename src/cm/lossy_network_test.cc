// Many connections over a network that loses, repeats and reorders, by seeds: each side learns of
// each connection's end, and nothing of it is left.

#include <gtest/gtest.h>

#include <map>

#include "cm/testing/network.h"

namespace weft::cm {
namespace {

class LossyNetwork : public ::testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(Seeds, LossyNetwork, ::testing::Range(1U, 41U));

/// Users that accept everything and record all events.
struct Users {
  TestCmNetwork& net;
  std::map<CmId, unsigned> established_a;
  std::map<CmId, unsigned> established_b;
  unsigned next_qpn{0x1000};
  Random random;

  Users(TestCmNetwork& network, unsigned seed) : net(network), random(seed) {
    serve(net.a(), established_a);
    serve(net.b(), established_b);
  }

  void serve(TestHost& host, std::map<CmId, unsigned>& established) {
    host.on_event = [this, &host, &established](CmId id, const CmEvent& event, Instant now) {
      switch (event.type) {
        case CmEventType::ReqReceived:
          return on_request(host, id, now);
        case CmEventType::RepReceived:
          if (random.chance(1, 4)) {
            EXPECT_TRUE(host.cm.send_mra(id, 12, {}, now).has_value());
          }
          EXPECT_TRUE(host.cm.send_rtu(id, {}, now).has_value());
          ++established[id];
          break;
        case CmEventType::RtuReceived:
          ++established[id];
          break;
        case CmEventType::DreqReceived:
          EXPECT_TRUE(host.cm.send_drep(id, {}, now).has_value());
          break;
        case CmEventType::TimewaitExit:
        case CmEventType::ReqTimeout:
        case CmEventType::RepTimeout:
        case CmEventType::RejReceived:
          return Handled::Destroy;
        default:
          break;
      }
      return Handled::Keep;
    };
  }

  Handled on_request(TestHost& host, CmId id, Instant now) {
    if (random.chance(1, 10)) {
      return random.chance(1, 2) ? Handled::Destroy : Handled::DestroyNoResources;
    }
    if (random.chance(1, 4)) {
      EXPECT_TRUE(host.cm.send_mra(id, 12, {}, now).has_value());
    }
    auto reply = TestCmNetwork::reply();
    reply.qpn = Qpn{++next_qpn};
    EXPECT_TRUE(host.cm.send_rep(id, reply, now).has_value());
    return Handled::Keep;
  }
};

TEST_P(LossyNetwork, BringsEveryConnectionToItsEnd) {
  TestCmNetwork net{
      GetParam(),
      {.loss = 20,
          .duplication = 20,
          .delay_min = Duration::microseconds(5),
          .delay_max = Duration::milliseconds(8)}
  };
  Users users{net, GetParam()};
  const CmId listener = net.b().listener(0x1000);
  std::vector<CmId> clients;
  for (unsigned i = 0; i < 40; ++i) {
    auto request = net.request();
    request.qpn = Qpn{0x100 + i};
    request.max_cm_retries = 15;
    clients.push_back(net.a().make());
    ASSERT_TRUE(net.a().cm.send_req(clients.back(), request, net.now).has_value());
    net.run_for(Duration::milliseconds(3));
  }
  net.run_for(Duration::seconds(5));
  unsigned connected = 0;
  for (const CmId id : clients) {
    const State state = net.a().state(id);
    EXPECT_TRUE(state == State::Established || state == State::Idle) << name_of(state);
    connected += state == State::Established ? 1 : 0;
  }
  EXPECT_GE(connected, 25U);
  // Both ends agree: whoever is connected has a peer that is.
  unsigned served = 0;
  for (const IdStatus& id : net.b().cm.ids()) {
    served += id.state == State::Established ? 1 : 0;
  }
  EXPECT_EQ(served, connected);
  for (const auto& counts : {users.established_a, users.established_b}) {
    for (const auto& [id, count] : counts) {
      EXPECT_EQ(count, 1U) << "established twice";
    }
  }

  for (const CmId id : clients) {
    if (net.a().state(id) == State::Established && users.random.chance(1, 2)) {
      EXPECT_TRUE(net.a().cm.send_dreq(id, {}, net.now).has_value());
    } else if (net.a().cm.status(id)) {
      EXPECT_TRUE(net.a().cm.destroy(id, net.now).has_value());
    }
  }
  net.run();
  EXPECT_TRUE(net.a().cm.ids().empty());
  ASSERT_EQ(net.b().cm.ids().size(), 1U);
  EXPECT_EQ(net.b().cm.ids()[0].id, listener);
}

}  // namespace
}  // namespace weft::cm
