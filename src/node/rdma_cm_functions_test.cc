// RDMA-CM beside and in virtual functions.

#include <gtest/gtest.h>

#include "node/node_change.h"
#include "node/testing/rdma_cm_hosts.h"

namespace weft::node {
namespace {

using cm::ConnectionParameters;
using cm::PortSpace;
using cm::QpType;
using cm::RdmaCmEvent;
using cm::RdmaCmId;
using enum cm::RdmaCmEventType;
using testing::address_of;
using testing::at;

struct RdmaCmOfFunctions : testing::RdmaCmHosts {};

// Whoever disconnects, host 1 or its peer: what was connected, or under way, before a port was
// shared is still its host's.
TEST_F(RdmaCmOfFunctions, ConnectionsOutliveTheFirstVirtualFunctionOfTheirPort) {
  listen(1, at(address_of(1)));
  const Connected early = connect(2, 1, at(address_of(1)));
  const Connected other = connect(3, 1, at(address_of(1)));
  const RdmaCmId asking = resolve(2, at(address_of(1)));
  ASSERT_TRUE(rdma(2).connect(asking, {.qpn = Qpn{0x333}, .retry_count = 7}, now));
  const RdmaCmEvent request = expect(server, ConnectRequest);
  ASSERT_TRUE(fabric->change_node(*read_node_change("add vf v1 of=h1"), now));
  run_for(Duration::seconds(3));
  ASSERT_TRUE(client.waiting.empty());

  const ConnectionParameters reply{.qpn = Qpn{0x444}};
  ASSERT_TRUE(rdma(1).accept(request.id, &reply, now));
  ASSERT_TRUE(rdma(1).set_context(request.id, 78));
  expect(client, ConnectResponse);
  ASSERT_TRUE(rdma(2).accept(asking, nullptr, now));
  expect(server, Established);

  EXPECT_TRUE(rdma(1).disconnect(early.server, now));
  expect(client, Disconnected);
  EXPECT_TRUE(rdma(2).disconnect(early.client, now));  // the answer
  expect(server, Disconnected);
  EXPECT_TRUE(rdma(3).disconnect(other.client, now));
  expect(server, Disconnected);
  EXPECT_TRUE(rdma(1).disconnect(other.server, now));
  expect(client, Disconnected);
}

// A SIDR_REQ has no GID in it. Two functions of one port, its own host and others offer a service
// at the same number.
TEST_F(RdmaCmOfFunctions, ADatagramServiceOfAVirtualFunctionIsFoundByItsAddress) {
  ASSERT_TRUE(fabric->change_node(*read_node_change("add vf h4 of=h1"), now));
  ASSERT_TRUE(fabric->change_node(*read_node_change("add vf h5 of=h1"), now));
  run_for(Duration::seconds(3));
  for (const std::uint32_t host : {1U, 2U, 4U, 5U}) {
    listen(host, at(address_of(host)), PortSpace::Udp, QpType::Ud);
  }
  for (const std::uint32_t host : {1U, 4U, 5U}) {
    for (const std::uint32_t from : {3U, 5U, 4U, 1U}) {
      const RdmaCmId id = resolve(from, at(address_of(host)), PortSpace::Udp, QpType::Ud);
      EXPECT_TRUE(rdma(from).connect(id, {.qpn = Qpn{5}}, now));
      const RdmaCmEvent request = expect(server, ConnectRequest);
      EXPECT_EQ(request.context, host) << "from " << from;
      const ConnectionParameters reply{.qpn = Qpn{0x300 + host}};
      ASSERT_TRUE(rdma(host).accept(request.id, &reply, now));
      EXPECT_EQ(expect(client, Established).parameters.qpn, reply.qpn);
    }
  }
}

}  // namespace
}  // namespace weft::node
